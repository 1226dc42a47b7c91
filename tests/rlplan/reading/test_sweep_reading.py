"""What the picture of a sweep says of the rows, and what reading it costs."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from budgets.errors import NotFoundError
from planner.store import Store, open_store, sweeps
from planner.store.driving import Driver, take_lease
from planner.store.schema import SegmentOutcome, SweepStatus
from planner.trials import TrialState
from rlplan.reading.points import Memory
from rlplan.reading.sweep_reading import picture
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at
from tests.rlplan.counting import selects
from tests.rlplan.sweep_rows import HOURS, STEPS, TRIALS, Seeder, later, seeded


@pytest.fixture
def seeder(tmp_path: Path) -> Iterator[Seeder]:
    opened = seeded(tmp_path / "rlplan.db")
    yield opened
    opened.store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "empty.db") as opened:
        yield opened


def test_money_adds_up_to_what_the_rows_hold(seeder: Seeder) -> None:
    seen = picture(seeder.store, now=later(seeder))
    committed = sum(trial[3] for trial in TRIALS) * (HOURS - 1)
    assert seen.money.by_outcome == {"committed": committed, "failed": 3.0}
    assert seen.money.by_charge == {"idle": 4.5}
    assert seen.money.spent == committed + 3.0 + 4.5
    assert seen.money.reserved == 2 * HOURS  # two run
    assert seen.money.left == 1000.0 - seen.money.spent - seen.money.reserved


def test_trials_come_with_state_scores_and_forecast(seeder: Seeder) -> None:
    seen = picture(seeder.store, now=later(seeder))
    assert [trial.state for trial in seen.trials] == [trial[-1] for trial in TRIALS]
    first = seen.trials[0]
    assert (first.name, first.step, first.pilot_steps, first.gpu_hours_spent) == ("n512-B32-s0", 30, 40, 87.0)
    assert [score.step for score in first.scores] == list(range(0, 31, 2))
    assert first.forecast is not None
    assert (first.forecast.mean, first.forecast.probability_best) == (0.74, 0.62)
    assert {kind: [trial.name for trial in trials] for kind, trials in seen.failures.items()} == {
        "out-of-memory": ["n1024-B1024-s0"]
    }


def test_the_newest_fit_and_the_last_decisions_count(seeder: Seeder) -> None:
    seeder.fit(1, 0.5, 0.01)
    for number in range(20):
        seeder.decide("prune", f"reason {number}", 2)
    seen = picture(seeder.store, now=later(seeder))
    assert seen.trials[0].forecast is not None
    assert seen.trials[0].forecast.mean == 0.5
    assert seen.decisions == 36
    assert [each.number for each in seen.last_decisions][-3:] == [34, 35, 36]
    assert (seen.last_decisions[-1].trial, seen.last_decisions[-1].reason) == ("n128-B64-s0", "reason 19")


def test_what_a_lost_attempt_did_beyond_its_last_checkpoint_is_not_shown(store: Store) -> None:
    seeder = Seeder(store)
    trial = seeder.trial(8, 32)
    seeder.begin(trial, 0)
    seeder.score(trial, 0, 0.1)
    seeder.score(trial, 10, 0.2)
    seeder.settle(trial, SegmentOutcome.COMMITTED)
    seeder.move(trial, TrialState.PAUSED)
    seeder.begin(trial, 10)
    seeder.score(trial, 14, 0.3)
    assert picture(store).trials[0].step == 14
    seeder.settle(trial, SegmentOutcome.LOST, 2.0)
    seeder.move(trial, TrialState.LOST)
    seeder.move(trial, TrialState.PAUSED)

    waiting = picture(store).trials[0]
    assert (waiting.step, [score.step for score in waiting.scores]) == (10, [0, 10])
    seeder.begin(trial, 10)
    seeder.score(trial, 12, 0.25, attempt=2)
    again = picture(store).trials[0]
    assert (again.step, again.attempt) == (12, 2)
    assert [(score.step, score.score) for score in again.scores] == [(0, 0.1), (10, 0.2), (12, 0.25)]


def test_the_newest_sweep_is_shown_unless_one_is_named(store: Store) -> None:
    with pytest.raises(NotFoundError, match="rlplan sweep"):
        picture(store)
    first, second = Seeder(store), samples.put(store, sweeps.create_sweep, "plan-1", samples.sweep(), NOON)
    assert picture(store).sweep == second
    assert picture(store, first.sweep).sweep == first.sweep
    with pytest.raises(NotFoundError, match="there are: sweep-1, sweep-2"):
        picture(store, "sweep-7")


def test_time_left_is_what_the_running_trials_can_spend(seeder: Seeder) -> None:
    now = later(seeder)
    seen = picture(seeder.store, now=now)
    assert seen.elapsed_seconds == (now - NOON).total_seconds()
    most = (seen.money.left + seen.money.reserved) / (2 * 8) * 3600  # two trials on 8 GPUs each
    assert seen.seconds_left is not None
    assert most / 2 < seen.seconds_left < most
    later_on = picture(seeder.store, now=now + timedelta(seconds=30)).seconds_left
    assert later_on == pytest.approx(seen.seconds_left - 30)


def test_a_driver_that_is_silent_or_gone_is_not_alive(seeder: Seeder) -> None:
    alive = picture(seeder.store, now=later(seeder, 30.0))
    assert alive.driver is not None
    assert (alive.driver.alive, alive.driver.silent_seconds, alive.abandoned) == (True, 30.0, False)
    silent = picture(seeder.store, now=later(seeder, 300.0))
    assert silent.abandoned
    assert silent.seconds_left is None
    assert silent.elapsed_seconds == alive.elapsed_seconds - 30.0  # it counts to the last sign of life

    gone = Driver("me@1.00", socket.gethostname(), 2**22 + 1)  # on this machine, where no process has that number
    with seeder.store.write() as session:
        take_lease(session, seeder.sweep, gone, later(seeder), former_is_dead=True)
    assert picture(seeder.store, now=later(seeder, 3.0)).abandoned


def test_a_sweep_at_rest_has_no_driver_and_no_time_left(seeder: Seeder) -> None:
    seeder.end(SweepStatus.INTERRUPTED)
    seen = picture(seeder.store, now=later(seeder, 9999.0))
    assert (seen.driver, seen.at_rest, seen.seconds_left) == (None, True, None)
    assert seen.elapsed_seconds < 2 * 3600


def test_the_answer_comes_with_its_list(seeder: Seeder) -> None:
    assert picture(seeder.store).answer is None
    seeder.recommend()
    answer = picture(seeder.store).answer
    assert answer is not None
    assert (answer.rollouts_per_prompt, answer.probability_best) == (512, 0.62)
    assert [row.rank for row in answer.ranking] == [1, 2, 3]


def queries(store: Store, memory: Memory | None = None) -> int:
    return selects(store, lambda: picture(store, memory=memory))


def test_the_number_of_queries_does_not_grow_with_the_trials(seeder: Seeder) -> None:
    few = queries(seeder.store)
    for seed in range(1, 40):
        trial = seeder.trial(8, 32, seed)
        seeder.begin(trial, 0)
        seeder.score(trial, 0, 0.2)
    assert queries(seeder.store) == few <= 12


def test_what_is_remembered_is_not_read_again_and_changes_nothing(seeder: Seeder) -> None:
    memory: Memory = {}
    now = at(100)
    assert picture(seeder.store, now=now, memory=memory) == picture(seeder.store, now=now)
    read = queries(seeder.store, memory)
    assert read == queries(seeder.store) - 1  # no scores
    seeder.score(1, 3 * STEPS + 2, 0.65)
    fresh = picture(seeder.store, now=now, memory=memory)
    assert fresh == picture(seeder.store, now=now)
    assert fresh.trials[0].last is not None
    assert fresh.trials[0].last.step == 32
