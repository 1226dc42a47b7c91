"""A sweep that is looked at: read once for all who look on, fitted meanwhile, and what fails is told."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from tests.rlplan.web.dashboard.visits import PATIENCE_SECONDS

NOTHING = Beliefs(None, "nothing seen yet", {}, {})
Reading = Callable[[Callable[[str], Beliefs]], SweepReader]


@pytest.fixture
def reading(sweep: Seeder, database: Path) -> Iterator[Reading]:
    source = Source(str(database))

    def render(name: str, story: Story, _: object) -> str:
        return f"<p>{name} {story.picture.trials}</p>"

    yield lambda believe: SweepReader("sweep-1", source, believe, render)
    source.close()


@contextmanager
def looking(reader: Callable[[str], SweepReader]) -> Iterator[LiveSweeps]:
    live = LiveSweeps(reader)
    yield live
    live.close()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_nobody_waits_for_a_fit_and_its_answer_comes(reading: Reading) -> None:
    go = threading.Event()

    def believe(_: str) -> Beliefs:
        assert go.wait(20)
        return NOTHING

    with looking(lambda _: reading(believe)) as live:
        assert live.of("sweep-1").snapshot.fitted is None
        go.set()
        until(lambda: live.of("sweep-1").snapshot.beliefs is NOTHING)


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

    with looking(reader) as live, ThreadPoolExecutor(9) as visitors:
        first = live.of("sweep-1").snapshot
        assert all(each.snapshot is first for each in visitors.map(live.of, ["sweep-1"] * 9))
        sweep.score(1, 31, 0.9)
        assert live.of("sweep-1").snapshot is first, "it has just been read"
        monkeypatch.setattr(lives, "FRESH_SECONDS", 0.0)
        until(lambda: live.of("sweep-1").snapshot.mark != first.mark)
    assert len(readers) == 1


def test_who_comes_after_a_while_waits_for_the_newest(
    sweep: Seeder, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(lives, "STALE_SECONDS", 0.0)

    with looking(lambda _: reading(lambda _: NOTHING)) as live:
        first = live.of("sweep-1").snapshot
        sweep.score(1, 31, 0.9)
        until(lambda: live.of("sweep-1").snapshot.mark != first.mark)  # no longer than what is read may take
        assert live.of("sweep-1").snapshot.story.picture.trials != first.story.picture.trials
