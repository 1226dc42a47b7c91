"""A sweep that is looked at: read once for all who look on, fitted meanwhile, and what fails is told."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from sse_starlette import EventSourceResponse, ServerSentEvent

from budgets.errors import NotFoundError
from rlplan.reading.story import Beliefs, Story
from rlplan.web.dashboard import live as lives
from rlplan.web.dashboard import snapshots
from rlplan.web.dashboard.live import LiveSweeps
from rlplan.web.dashboard.snapshots import SweepReader
from rlplan.web.dashboard.source import Source
from tests.rlplan.sweep_rows import Seeder

NOTHING = Beliefs(None, "nothing seen yet", {}, {})
Reading = Callable[[Callable[[str], Beliefs]], SweepReader]


@pytest.fixture
def reading(sweep: Seeder, database: Path) -> Iterator[Reading]:
    source = Source(str(database))

    def render(name: str, story: Story, _: object) -> str:
        return f"<p>{name} {story.picture.trials}</p>"

    yield lambda believe: SweepReader("sweep-1", source, believe, render)
    source.close()


def test_nobody_waits_for_a_fit_and_its_answer_comes(reading: Reading) -> None:
    go = threading.Event()

    def believe(_: str) -> Beliefs:
        assert go.wait(20)
        return NOTHING

    async def visit() -> None:
        live = LiveSweeps(lambda _: reading(believe))
        first = await live.snapshot("sweep-1")
        assert first.fitted is None
        go.set()
        while (await live.snapshot("sweep-1")).beliefs is not NOTHING:
            await asyncio.sleep(0.01)
        live.close()

    asyncio.run(asyncio.wait_for(visit(), 60))


def test_a_sweep_is_not_fitted_again_and_again(
    sweep: Seeder, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = reading(lambda _: NOTHING)
    reader.look()
    assert reader.fit_is_due
    reader.fit()
    reader.look()
    assert not reader.fit_is_due, "there is nothing new"
    sweep.score(1, 31, 0.9)
    reader.look()
    assert not reader.fit_is_due, "it has just been fitted"
    monkeypatch.setattr(snapshots, "SHORTEST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(snapshots, "PAUSE_PER_SECOND_OF_WORK", 0.0)
    reader.fit()
    sweep.score(1, 32, 0.9)
    reader.look()
    assert reader.fit_is_due


def test_what_fails_is_told_and_what_was_believed_stays(reading: Reading) -> None:
    answers: list[Beliefs | Exception] = [NOTHING, NotFoundError("it is gone"), ZeroDivisionError("our bug")]

    def believe(_: str) -> Beliefs:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    reader = reading(believe)
    for problem in (None, "it is gone", "what is stored could not be fitted (ZeroDivisionError)"):
        reader.look()
        reader.fit()
        reader.look()
        assert reader.snapshot is not None
        assert reader.snapshot.fitted is not None
        assert (reader.snapshot.beliefs, reader.snapshot.fitted.problem) == (NOTHING, problem)


async def heard(told: AsyncIterator[ServerSentEvent]) -> str:
    """Return the version of the curves that a browser is told of next."""
    async with asyncio.timeout(20):
        while (event := await anext(told)).event != "state":
            pass
    version: str = json.loads(event.data)["versions"]["curves"]
    return version


def test_who_is_slow_gets_the_newest_and_holds_nobody_up(
    sweep: Seeder, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "POLL_SECONDS", 0.02)
    readers: list[SweepReader] = []

    def reader(_: str) -> SweepReader:
        readers.append(reading(lambda _: NOTHING))
        return readers[-1]

    def events(answer: EventSourceResponse) -> AsyncIterator[ServerSentEvent]:
        return cast(AsyncIterator[ServerSentEvent], answer.body_iterator)

    async def scene() -> None:
        live = LiveSweeps(reader)
        slow, quick = events(await live.watch("sweep-1")), events(await live.watch("sweep-1"))
        await heard(slow)
        last = await heard(quick)
        for step in (31, 32, 33):
            sweep.score(1, step, 0.9)
            while (told := await heard(quick)) == last:
                pass
            last = told
        assert await heard(slow) == last
        live.close()

    asyncio.run(scene())
    assert len(readers) == 1, "one reads, however many look on"


def test_nobody_reads_what_nobody_looks_at(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(lives, "IDLE_SECONDS", 0.0)

    async def scene() -> None:
        live = LiveSweeps(lambda _: reading(lambda _: NOTHING))
        first = await live.snapshot("sweep-1")
        while [task for task in asyncio.all_tasks() if task.get_name().startswith("reads")]:
            await asyncio.sleep(0.01)
        assert (await live.snapshot("sweep-1")).mark == first.mark
        live.close()

    asyncio.run(scene())
