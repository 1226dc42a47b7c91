"""A sweep that is looked at: read once for all who look on, fitted meanwhile, and what fails is told."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


def test_one_reads_however_many_look_on(sweep: Seeder, reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[SweepReader] = []

    def reader(_: str) -> SweepReader:
        readers.append(reading(lambda _: NOTHING))
        return readers[-1]

    async def scene() -> None:
        live = LiveSweeps(reader)
        first = await live.snapshot("sweep-1")
        assert all(each is first for each in await asyncio.gather(*(live.snapshot("sweep-1") for _ in range(9))))
        sweep.score(1, 31, 0.9)
        assert await live.snapshot("sweep-1") is first, "it has just been read"
        monkeypatch.setattr(lives, "FRESH_SECONDS", 0.0)
        async with asyncio.timeout(20):
            while (await live.snapshot("sweep-1")).mark == first.mark:
                await asyncio.sleep(0.01)
        live.close()

    asyncio.run(scene())
    assert len(readers) == 1


def test_who_comes_after_a_while_waits_for_the_newest(
    sweep: Seeder, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(lives, "STALE_SECONDS", 0.0)

    async def scene() -> None:
        live = LiveSweeps(lambda _: reading(lambda _: NOTHING))
        first = await live.snapshot("sweep-1")
        sweep.score(1, 31, 0.9)
        while (newest := await live.snapshot("sweep-1")).mark == first.mark:  # no longer than what is read may take
            await asyncio.sleep(0)
        assert newest.story.picture.trials != first.story.picture.trials
        live.close()

    asyncio.run(asyncio.wait_for(scene(), 60))
