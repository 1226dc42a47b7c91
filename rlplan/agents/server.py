"""An MCP server: rlplan's commands as tools of a coding agent, over stdio, in one folder.

Each call is a process of its own, so that nothing that a command prints, needs or breaks touches the protocol. Without
`--allow-runs` the results database is only read: a plan is then priced beside a copy of it.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from budgets.errors import RlplanError, StoreError
from rlplan.agents.tools import CommandTool, Envelope, tools_of
from rlplan.exits import ExitCode

ANSWER_SECONDS = 120  # for what only reads
WAIT_SECONDS = 45  # for what trains: clients give up on a call after a minute
LOGS = "rlplan-agent"  # a folder for what a run prints, beside the database
MOST_TEXT = 4000  # characters of messages that are handed on

INSTRUCTIONS = """\
rlplan says what to spend GPU-hours of RL post-training on. Ask `propose` for a plan, `price` for a step, `fit` for a
curve's end, `status`, `rank` and `recommend` for a sweep. `answer` is the command's JSON document; `said` is what it
told a person beside it, warnings first. Scores are between 0 and 1, intervals hold 90 %, hours are GPU-hours.
Numbers rest on assumptions that the answer lists: pass them on, and ask the person before GPU-hours are spent."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where an agent works, and what it may do."""

    folder: Path
    database: str
    runs: bool

    def call(self, tool: CommandTool, given: Mapping[str, Any]) -> types.CallToolResult:
        """Run a command and return what it answers."""
        words = tool.words(given, self.folder)
        if tool.runs:
            return self._started(tool, words)
        with self._database(tool) as database, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = _process(words, database, self.folder, out, err)
            try:
                return _result(tool, process.wait(ANSWER_SECONDS), _read(out), _read(err))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return _failed(f"{tool.name} took longer than {ANSWER_SECONDS} s, and was ended")

    @contextmanager
    def _database(self, tool: CommandTool) -> Iterator[str]:
        """Yield the database, or a copy for a plan that is not to be kept."""
        if self.runs or tool.name != "propose":
            yield self.database
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "rlplan.db"
            if os.path.isfile(self.database):
                copied(Path(self.database), copy)
            yield str(copy)

    def _started(self, tool: CommandTool, words: Sequence[str]) -> types.CallToolResult:
        """Start what trains in a session of its own, which outlives the agent, and wait for a moment."""
        logs = self.folder / LOGS
        logs.mkdir(exist_ok=True)
        number = sum(1 for _ in logs.glob("*.out")) + 1
        out_path = logs / f"{number}-{words[0]}.out"
        err_path = out_path.with_suffix(".err")
        with out_path.open("w+") as out, err_path.open("w+") as err:
            process = _process(words, self.database, self.folder, out, err)
            try:
                return _result(tool, process.wait(WAIT_SECONDS), _read(out), _read(err))
            except subprocess.TimeoutExpired:
                stderr = _read(err)
        note = f"it goes on; `status` says how it stands, `stop` ends it, and {err_path} has what it says"
        return _content(None, None, f"{stderr[-MOST_TEXT:]}\n{note}".strip())


def copied(path: Path, copy: Path) -> None:
    """Copy a database as it is at one moment, also while a sweep writes into it."""
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    except sqlite3.Error as error:
        raise StoreError(f"'{path}' cannot be read: {error}") from error


def serve(group: Any, folder: Path, database: str, *, runs: bool) -> None:
    """Answer an agent over stdin and stdout until it goes; `database` is a path, as from the folder, or a URL."""
    folder = folder.resolve()
    where = database if "://" in database else str(folder / database)
    anyio.run(_serve, tools_of(group, runs=runs), Desk(folder, where, runs))


async def _serve(tools: Mapping[str, CommandTool], desk: Desk) -> None:
    async def listed(_: Any, __: Any) -> types.ListToolsResult:
        described = [
            types.Tool(
                name=tool.name,
                description=tool.summary,
                input_schema=tool.schema,
                output_schema=Envelope.model_json_schema(),
                annotations=types.ToolAnnotations(
                    read_only_hint=not tool.runs, destructive_hint=False, open_world_hint=False
                ),
            )
            for tool in tools.values()
        ]
        return types.ListToolsResult(tools=described)

    async def called(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(asked.name)
        if tool is None:
            return _failed(f"there is no tool '{asked.name}'; there are {', '.join(tools)}")
        try:
            return await to_thread.run_sync(desk.call, tool, asked.arguments or {})
        except (RlplanError, OSError) as error:
            return _failed(str(error))

    server: Server[Any] = Server(
        "rlplan", version=version("rlplan"), instructions=INSTRUCTIONS, on_list_tools=listed, on_call_tool=called
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _process(words: Sequence[str], database: str, folder: Path, out: Any, err: Any) -> "subprocess.Popen[str]":
    code = "from rlplan.entry import main; raise SystemExit(main())"
    environment = os.environ | {"RLPLAN_DB": database, "NO_COLOR": "1", "COLUMNS": "100"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        text=True,
        start_new_session=True,
    )


def _read(file: Any) -> str:
    file.seek(0)
    return str(file.read())


def _result(tool: CommandTool, code: int, printed: str, stderr: str) -> types.CallToolResult:
    if code not in (ExitCode.DONE, ExitCode.FINISHED_WITH_FAILURES):
        return _failed(stderr.strip() or f"it ended with exit code {code}")
    if tool.lines:
        return _content([json.loads(line) for line in printed.splitlines()], code, stderr.strip()[-MOST_TEXT:])
    answer = json.loads(printed) if printed.strip() else None
    return _content(answer, code, stderr.strip()[-MOST_TEXT:])


def _content(answer: Any, code: int | None, notes: str) -> types.CallToolResult:
    envelope = Envelope(answer=answer, exit_code=code, said=notes)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=envelope.model_dump_json())],
        structured_content=envelope.model_dump(),
    )


def _failed(why: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=why[-MOST_TEXT:])], is_error=True)
