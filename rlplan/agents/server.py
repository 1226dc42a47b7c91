"""An MCP server: rlplan's commands as tools of a coding agent, over stdio, in one folder.

Each call is a process of its own, so that nothing that a command prints, needs or breaks touches the protocol. Without
`--allow-runs` the results database is only read: plans are then stored in a copy of it, until the agent goes.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from budgets.errors import RlplanError, StoreError
from rlplan.agents.tools import DETAIL, CommandTool, Envelope, tools_of
from rlplan.exits import ExitCode

ANSWER_SECONDS = 120  # for what only reads
WAIT_SECONDS = 45  # for what trains: clients give up on a call after a minute
LOGS = "rlplan-agent"  # a folder for what a run prints, beside the database
MOST_TEXT = 4000  # characters of messages that are handed on
SHORT_TEXT = 1000  # of those beside an answer
SHORT_ANSWER = 4600  # characters of an answer without `detail`: with its messages it stays below 6,000
PLANS = ("plan", "sweep", "name")  # arguments that may name a plan

INSTRUCTIONS = """\
rlplan says what to spend GPU-hours of RL post-training on. Ask `propose` for a plan, `price` for a step, `fit` for a
curve's end, `status`, `rank` and `recommend` for a sweep. `answer` is the command's JSON document; `said` is what it
told a person beside it, warnings first. Scores are between 0 and 1, intervals hold 90 %, hours are GPU-hours.
Numbers rest on assumptions that the answer lists: pass them on, and ask the person before GPU-hours are spent.
Long lists are cut, as `left_out` says: `detail` = true brings all of an answer."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where an agent works, and what it may do."""

    folder: Path
    database: str
    runs: bool
    drafts: Path  # a database of the plans that are not to be kept
    drafted: set[str] = field(default_factory=set)
    drafting: Lock = field(default_factory=Lock)

    def call(self, tool: CommandTool, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Run a command and return what it answers."""
        words = tool.words(arguments, self.folder)
        detail = bool(arguments.get(DETAIL))
        if tool.runs:
            return self._started(tool, words)
        if self.runs or tool.name != "propose":
            return self._answered(tool, words, self._database(tool, arguments), detail)
        with self.drafting:
            self._copy_database()
            result = self._answered(tool, words, str(self.drafts), detail)
            if not result.is_error and result.structured_content:
                self.drafted.add(result.structured_content["answer"]["plan"])
        return result

    def _answered(self, tool: CommandTool, words: Sequence[str], database: str, detail: bool) -> types.CallToolResult:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = _process(words, database, self.folder, out, err, confined=True)
            try:
                return _result(tool, process.wait(ANSWER_SECONDS), _read(out), _read(err), detail)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return _failed(f"{tool.name} took longer than {ANSWER_SECONDS} s, and was ended")

    def _database(self, tool: CommandTool, arguments: Mapping[str, Any]) -> str:
        """Return the database that a call is about: the drafts where it names one, or the newest plan may be one."""
        names = {arguments[name] for name in PLANS if arguments.get(name)}
        newest = tool.name == "preview" and not names and self.drafted
        return str(self.drafts) if newest or names & self.drafted else self.database

    def _copy_database(self) -> None:
        """Bring the drafts up to date with the database; plans that were drafted before keep their names."""
        if not os.path.isfile(self.database):
            return
        copy = self.drafts.with_suffix(".new")
        copied(Path(self.database), copy)
        if self.drafted:
            with closing(sqlite3.connect(copy)) as target:
                target.execute("ATTACH ? AS drafts", (str(self.drafts),))
                for name in self.drafted:
                    target.execute("INSERT OR REPLACE INTO plans SELECT * FROM drafts.plans WHERE name = ?", (name,))
                target.commit()
        os.replace(copy, self.drafts)

    def _started(self, tool: CommandTool, words: Sequence[str]) -> types.CallToolResult:
        """Start what trains in a session of its own, which outlives the agent, and wait for a moment."""
        logs = self.folder / LOGS
        logs.mkdir(exist_ok=True)
        number = sum(1 for _ in logs.glob("*.out")) + 1
        out_path = logs / f"{number}-{words[0]}.out"
        err_path = out_path.with_suffix(".err")
        with out_path.open("w+") as out, err_path.open("w+") as err:
            process = _process(words, self.database, self.folder, out, err, confined=False)
            try:
                return _result(tool, process.wait(WAIT_SECONDS), _read(out), _read(err), detail=False)
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
    with tempfile.TemporaryDirectory() as drafts:
        anyio.run(_serve, tools_of(group, runs=runs), Desk(folder, where, runs, Path(drafts, "rlplan.db")))


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

    async def called(_: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(request.name)
        if tool is None:
            return _failed(f"there is no tool '{request.name}'; there are {', '.join(tools)}")
        try:
            return await to_thread.run_sync(desk.call, tool, request.arguments or {})
        except (RlplanError, OSError, ValueError) as error:
            return _failed(str(error))

    server: Server[Any] = Server(
        "rlplan", version=version("rlplan"), instructions=INSTRUCTIONS, on_list_tools=listed, on_call_tool=called
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _process(
    words: Sequence[str], database: str, folder: Path, out: Any, err: Any, *, confined: bool
) -> "subprocess.Popen[str]":
    """Start a command, whose modules are never looked for in the agent's folder."""
    begin, first = ("confined", [str(folder), database]) if confined else ("main", [])
    code = f"from rlplan.entry import {begin}; raise SystemExit({begin}())"
    environment = os.environ | {"RLPLAN_DB": database, "NO_COLOR": "1", "COLUMNS": "100"}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *first, *words],
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


def _result(tool: CommandTool, code: int, printed: str, stderr: str, detail: bool) -> types.CallToolResult:
    if code not in (ExitCode.DONE, ExitCode.FINISHED_WITH_FAILURES):
        return _failed(stderr.strip() or f"it ended with exit code {code}")
    if tool.lines:
        answer: Any = [json.loads(line) for line in printed.splitlines()]
    else:
        answer = json.loads(printed) if printed.strip() else None
    if detail:
        return _content(answer, code, stderr.strip()[-MOST_TEXT:])
    short, left_out = short_answer(answer, SHORT_ANSWER, newest=tool.name in ("watch", "decisions"))
    return _content(short, code, stderr.strip()[-SHORT_TEXT:], left_out)


def _content(
    answer: Any, code: int | None, notes: str, left_out: Mapping[str, str] | None = None
) -> types.CallToolResult:
    envelope = Envelope(answer=answer, exit_code=code, said=notes, left_out=dict(left_out or {}))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=envelope.model_dump_json())],
        structured_content=envelope.model_dump(),
    )


def _failed(why: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=why[-MOST_TEXT:])], is_error=True)


DIGITS = 3
ROWS = (24, 12, 8, 5, 3, 2, 1, 0)  # that are tried, of every list
NESTED = 3  # rows at most of a list within a row


def short_answer(answer: Any, most: int, *, newest: bool = False) -> tuple[Any, dict[str, str]]:
    """Return as much of a document as `most` characters hold, and how much of each list that is.

    Of `newest` lists the end is kept, else the start.
    """
    if len(json.dumps(answer)) <= most:
        return answer, {}
    for rows in ROWS:
        left_out: dict[str, str] = {}
        short = _cut(answer, rows, newest, "answer", left_out)
        if len(json.dumps(short)) <= most:
            return short, left_out
    while isinstance(short, dict) and len(json.dumps(short)) > most:  # the bulkiest, as far as needed
        key = max(short, key=lambda name: len(json.dumps(short[name])))
        left_out[key] = "nothing"
        del short[key]
    return short, left_out


def _cut(value: Any, rows: int, newest: bool, name: str, left_out: dict[str, str]) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if abs(value) < 10**DIGITS else round(value)
    if isinstance(value, dict):
        return {key: _cut(inner, rows, newest, key, left_out) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    kept = value if len(value) <= rows else value[-rows:] if newest and rows else value[:rows]
    if len(kept) < len(value):
        left_out.setdefault(name, f"{len(kept)} of {len(value)}")
    return [_cut(row, min(rows, NESTED), newest, name, left_out) for row in kept]
