"""What is believed of a sweep that is looked at: worked out while visitors are served, and told when it fails."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from budgets.errors import NotFoundError
from rlplan.reading.story import Beliefs
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
    yield lambda believe: SweepReader("sweep-1", source, believe, lambda name, *_: f"<p>{name}</p>")
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
