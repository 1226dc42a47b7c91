"""Workers that hang are killed, and their trials go on; what they cost is bounded."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from planner.config.trainer import Patience
from planner.policy.policies import open_policy
from planner.store.schema import Decision, Segment, SegmentOutcome, SweepStatus
from runner.ports.backend import Point
from runner.ports.executor import Event, Progress
from runner.sweep.dispatch import hung_because
from runner.sweep.journal import Journal
from runner.sweep.state import OpenSegment
from tests.runner.sweep.test_driver import rows, spent, sweep
from tests.simulated.executor import SimulatedExecutor

PATIENCE = Patience(least_seconds=600, median_steps=5, start_up_seconds=1800, stop_seconds=120, pause_seconds=900)


def segment(**changes: Any) -> OpenSegment:
    """Return one whose three updates took 50 s each, and that was heard of last at 200 s."""
    points = [Point(step, step, step, 50.0 * step, 0.0) for step in range(4)]
    given = {"points": points, "heard_seconds": 200.0, "worker": "w", **changes}
    return OpenSegment(1, 1, 1, 0, 9, 1.0, datetime.now(UTC), 0.0, **given)


@pytest.mark.parametrize(
    ("changes", "now", "used", "may_pause", "why"),
    [
        ({}, 790.0, 0.5, False, None),
        ({}, 810.0, 0.5, False, "610 s, and it has 600 s"),
        ({}, 810.0, 0.5, True, None),  # it may validate, or save
        ({"points": []}, 1900.0, 0.5, False, None),  # it starts
        ({"points": []}, 2100.0, 0.5, False, "start_up_seconds"),
        ({}, 310.0, 1.1, False, None),  # its longest updates take so long
        ({}, 330.0, 1.1, False, "what was reserved for it is used up"),
        ({"asked_seconds": 205.0}, 320.0, 0.5, False, None),
        ({"asked_seconds": 205.0}, 330.0, 0.5, False, "not ended within 120 s"),
    ],
)
def test_a_worker_hangs_that_is_silent_beyond_its_patience(
    changes: dict[str, Any], now: float, used: float, may_pause: bool, why: str | None
) -> None:
    said = hung_because(segment(**changes), now, used, PATIENCE, may_pause=may_pause)
    assert said is None if why is None else said is not None and why in said


class Freezing(SimulatedExecutor):
    """The worker that is heard of first does nothing more after its first updates."""

    frozen: int | None = None

    def wait(self, seconds: float) -> Sequence[Event]:
        events = super().wait(seconds)
        made = (each for each in events if isinstance(each, Progress) and each.points[-1].optimizer_step)
        first = next(made, None)
        if self.frozen is None and first is not None and first.segment in self._running:
            self.frozen = first.segment
            running = self._running[self.frozen]
            running.over_at, running.pending = math.inf, None
        return events

    def stop(self, segment: int) -> None:
        if segment != self.frozen:
            super().stop(segment)


def test_a_driver_that_was_held_up_takes_in_what_came_before_it_calls_a_worker_hung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, commit, commits = sweep(tmp_path, room=3.0), Journal.commit, count(1)
    executor = given.executor(gather_seconds=math.inf)  # all that has come comes at once

    def held_up(journal: Journal) -> None:
        commit(journal)
        if next(commits) == 5:  # another process has locked the database
            executor.clock.advance_to(executor.clock.seconds() + 3600.0)

    monkeypatch.setattr(Journal, "commit", held_up)
    assert given.drive(executor).failed_trials == 0
    assert not [each.reason for each in rows(given, Decision) if "its worker hangs" in each.reason]


def test_a_worker_that_hangs_ends_with_what_is_reserved_for_it_and_its_trial_goes_on(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=3.0)
    outcome = given.drive(Freezing(given.workers))
    assert outcome.status is SweepStatus.FINISHED
    (hung,) = [each for each in rows(given, Segment) if each.outcome is SegmentOutcome.FAILED]
    slack = (120.0 + 2 * 5.0) / 3600  # stop_seconds, and the driver's ticks
    assert hung.charged_gpu_hours <= hung.reserved_gpu_hours + slack
    (retry,) = [each for each in rows(given, Decision) if each.action == "retry"]
    assert "its worker hangs" in retry.reason
    assert outcome.failed_trials == 0


def test_a_stop_ends_though_a_worker_hangs(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=3.0)
    executor = Freezing(given.workers)
    with given.store() as store:
        asked = chain(repeat(False, 10), repeat(True))
        running = given.driver(executor, open_policy("full"), store, interrupted=lambda: next(asked))
        assert running.run().status is SweepStatus.INTERRUPTED
    assert executor.frozen is not None
    assert executor.clock.seconds() < 600
    assert spent(given) <= given.spec.pilot_gpu_hours


def test_a_patience_that_our_own_trainer_has_not_is_refused(tmp_path: Path) -> None:
    flags = {"trainer.patience": ("", {"least_seconds": 60.0})}
    with pytest.raises(
        InputError, match=r"trainer\.patience\.least_seconds counts for another trainer than rlplan's own"
    ):
        sweep(tmp_path, flags=flags)
    assert sweep(tmp_path, flags={**flags, "trainer.name": ("", "standin")}).spec.training.trainer is not None
