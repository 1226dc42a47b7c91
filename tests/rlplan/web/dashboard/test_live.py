import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
from sse_starlette import EventSourceResponse, ServerSentEvent

from budgets.errors import NotFoundError, StoreUnavailableError
from rlplan.reading.story import Beliefs
from rlplan.web.dashboard import live as lives
from rlplan.web.dashboard.live import LiveSweeps
from rlplan.web.dashboard.snapshots import SweepReader
from rlplan.web.dashboard.source import Source
from tests.rlplan.sweep_rows import Seeder

Scene = Callable[[LiveSweeps], Coroutine[Any, Any, None]]


class Counted(SweepReader):
    """A sweep that counts how often it is looked at."""

    looks = 0

    def look(self) -> bool:
        self.looks += 1
        return super().look()


@pytest.fixture
def play(sweep: Seeder, database: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene], dict[str, Counted]]:
    """Run a scene with live sweeps whose clock goes fast."""
    monkeypatch.setattr(lives, "POLL_SECONDS", 0.02)

    def run(scene: Scene) -> dict[str, Counted]:
        source, watched = Source(str(database)), {}
        nothing = Beliefs(None, "none", {}, {})

        def watch(name: str) -> SweepReader:
            if not name.startswith("sweep"):
                raise NotFoundError(f"there is no {name}")
            watched[name] = Counted(
                name, source, lambda _: nothing, lambda part, story, _: f"<p>{part} {story.picture.trials}</p>"
            )
            return watched[name]

        async def whole() -> None:
            live = LiveSweeps(watch)
            try:
                await scene(live)
            finally:
                live.close()

        asyncio.run(whole())
        source.close()
        return watched

    return run


def events(answer: EventSourceResponse) -> AsyncIterator[ServerSentEvent]:
    """What a browser is told that looks on."""
    return cast(AsyncIterator[ServerSentEvent], answer.body_iterator)


async def heard(told: AsyncIterator[ServerSentEvent]) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while (event := await anext(told)).event != "state":
            pass
    message: dict[str, Any] = json.loads(event.data)
    return message


def test_who_is_slow_gets_the_newest_and_holds_nobody_up(
    sweep: Seeder, play: Callable[[Scene], dict[str, Counted]]
) -> None:
    async def scene(live: LiveSweeps) -> None:
        slow, quick = events(await live.watch("sweep-1")), events(await live.watch("sweep-1"))
        await heard(slow)
        last = (await heard(quick))["versions"]["curves"]
        for step in (31, 32, 33):
            sweep.score(1, step, 0.9)
            while (told := await heard(quick))["versions"]["curves"] == last:
                pass
            last = told["versions"]["curves"]
        assert (await heard(slow))["versions"]["curves"] == last

    watched = play(scene)
    assert list(watched) == ["sweep-1"], "one reads, however many look on"


def test_too_many_are_turned_away(play: Callable[[Scene], dict[str, Counted]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "MOST_WATCHERS", 3)

    async def scene(live: LiveSweeps) -> None:
        answers = [await live.watch("sweep-1") for _ in range(3)]
        with pytest.raises(StoreUnavailableError, match="3 pages are open"):
            await live.watch("sweep-1")
        del answers[0]  # also one that never began to listen
        await live.watch("sweep-1")

    play(scene)


def test_a_sweep_that_is_not_there_takes_no_place(
    play: Callable[[Scene], dict[str, Counted]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "MOST_SWEEPS", 1)

    async def scene(live: LiveSweeps) -> None:
        listener = events(await live.watch("sweep-1"))
        for name in ("x", "y", "../z"):
            with pytest.raises(NotFoundError):
                await live.snapshot(name)
        assert "versions" in await heard(listener)

    assert list(play(scene)) == ["sweep-1"]


def test_nobody_reads_what_nobody_looks_at(
    play: Callable[[Scene], dict[str, Counted]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "IDLE_SECONDS", 0.0)

    async def scene(live: LiveSweeps) -> None:
        first = await live.snapshot("sweep-1")
        while [task for task in asyncio.all_tasks() if task.get_name().startswith("reads")]:
            await asyncio.sleep(0.01)
        assert (await live.snapshot("sweep-1")).mark == first.mark

    assert play(scene)["sweep-1"].looks <= 4


def test_trouble_is_told_once_and_its_end_too(
    sweep: Seeder, database: Path, play: Callable[[Scene], dict[str, Counted]]
) -> None:
    async def scene(live: LiveSweeps) -> None:
        listener = events(await live.watch("sweep-1"))
        while "versions" not in await heard(listener):
            pass
        away = database.with_suffix(".away")
        database.rename(away)
        while "trouble" not in (told := await heard(listener)):
            pass
        assert "there is no results database" in told["trouble"]
        with pytest.raises(StoreUnavailableError):
            await live.snapshot("sweep-1")
        away.rename(database)
        assert "versions" in await heard(listener)

    play(scene)


def test_all_are_let_go_at_the_end(play: Callable[[Scene], dict[str, Counted]]) -> None:
    async def scene(live: LiveSweeps) -> None:
        told = events(await live.watch("sweep-1"))
        await heard(told)
        live.close()
        assert len([event async for event in told]) <= 1

    play(scene)
