"""`rlplan mcp`, asked by the SDK's own client over stdio."""

import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

PRICED = {"budget": 5000, "gpus_per_trial": 16}


@asynccontextmanager
async def agent(folder: Path, *flags: str) -> AsyncIterator[Client]:
    words = ["-c", "from rlplan.entry import main; raise SystemExit(main())", "mcp", "--folder", str(folder), *flags]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        yield client


def test_an_agent_that_may_only_read_is_answered_and_changes_nothing(tmp_path: Path) -> None:
    async def walk() -> None:
        async with agent(tmp_path) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert "sweep" not in tools
            assert all(each.annotations and each.annotations.read_only_hint for each in tools.values())
            assert tools["propose"].input_schema["properties"]["budget"]["anyOf"][0]["type"] == "number"
            plan = answer_of(await client.call_tool("propose", PRICED))
            assert plan["candidates"][0]["prompts_per_batch"] > 0
            whole = answer_of(await client.call_tool("propose", PRICED | {"detail": True}))
            assert len(whole["candidates"]) > len(plan["candidates"])
            assert {plan["plan"], whole["plan"]} == {"plan-1", "plan-2"}
            assert answer_of(await client.call_tool("rank", {"name": plan["plan"]}))["plan"] == plan["plan"]
            assert answer_of(await client.call_tool("launch", {"sweep": whole["plan"], "print": "verl"}))["arguments"]
            price = answer_of(await client.call_tool("price", {"gpus": 8, "rollouts_per_prompt": 8}))
            assert price["gpu_hours_per_step"]
            for name, given, why in (
                ("status", {}, "no"),
                ("propose", {}, "budget"),
                ("propose", {"budget": -1}, "budget"),
                ("propose", {"budgte": 5}, "it takes budget"),
                ("propose", PRICED | {"from_log": "../other.log"}, "outside"),
                ("fit", {"files": ["/etc/passwd"]}, "outside"),
                ("fit", {"files": ["https://example.org/a.csv"]}, "URL"),
                ("launch", {"print": "verl", "trainer": "x"}, "takes sweep"),
                ("sweep", {}, "no tool 'sweep'"),
            ):
                assert why in text_of(await client.call_tool(name, given), failed=True)

    anyio.run(walk)
    assert not list(tmp_path.iterdir())


def test_a_corrupt_database_is_an_error_that_says_so_and_stays_as_it_is(tmp_path: Path) -> None:
    database = tmp_path / "rlplan.db"
    database.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    before = hashlib.sha256(database.read_bytes()).digest()

    async def walk() -> None:
        async with agent(tmp_path) as client:
            for tool, given in (("status", {}), ("propose", PRICED), ("rank", {})):
                assert "rlplan.db" in text_of(await client.call_tool(tool, given), failed=True)

    anyio.run(walk)
    assert hashlib.sha256(database.read_bytes()).digest() == before


def test_what_may_run_stores_its_plan_and_hands_out_the_line_to_start(tmp_path: Path) -> None:
    async def walk() -> Any:
        async with agent(tmp_path, "--allow-runs") as client:
            plan = answer_of(await client.call_tool("propose", PRICED))
            printed = await client.call_tool("launch", {"sweep": plan["plan"], "print": "verl"})
            return plan, answer_of(printed)

    plan, printed = anyio.run(walk)
    assert plan["plan"] == "plan-1"
    assert "rollout.n=8" in json.dumps(printed)  # of the champion, which `launch` starts
    assert (tmp_path / "rlplan.db").is_file()


def answer_of(result: Any) -> Any:
    assert not result.is_error, result.content[0].text
    return result.structured_content["answer"]


def text_of(result: Any, *, failed: bool) -> str:
    assert result.is_error is failed
    return str(result.content[0].text)
