"""A sweep whose fits fail: training goes on, and what was left out is fitted later."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.belief.draws import JointDraws
from planner.belief.pool import Pool
from planner.policy.policies import open_policy
from planner.store.schema import Decision, Fit, Point, SweepStatus, Trial
from planner.view import TrialState
from runner.sweep.conclusions import Conclusions
from tests.runner.sweep.test_driver import ROOM, rows, sweep


class Stumbling(Conclusions):
    """Its fits fail in the middle of a sweep, as a Cholesky may."""

    def fits(self, *_: Any) -> None:
        raise np.linalg.LinAlgError("Singular matrix")


def test_a_fit_that_fails_ends_nothing_and_is_noted_once(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=ROOM)
    with given.store() as store:
        running = given.driver(given.executor(), open_policy("full"), store)
        running._conclusions = Stumbling(Pool(), running._board, running._journal)
        assert running.run().status is SweepStatus.FINISHED
    (noted,) = [each for each in rows(given, Decision) if each.action == "left-out"]
    assert noted.reason.startswith("the fits of the curves were left out: LinAlgError: Singular matrix")
    assert all(trial.state is TrialState.FINISHED for trial in rows(given, Trial))


class Failing(Pool):
    def joint_draws(self, *_: Any, **__: Any) -> JointDraws:
        raise np.linalg.LinAlgError("Singular matrix")


class StumblingOften(Conclusions):
    """Every other turn its fits fail."""

    turns = 0

    def fits(self, *given: Any) -> None:
        self.turns += 1
        pool, self._pool = self._pool, Failing() if self.turns % 2 else self._pool
        try:
            super().fits(*given)
        finally:
            self._pool = pool


def test_what_a_fit_that_fails_leaves_out_is_fitted_in_the_next_turn(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=ROOM)
    with given.store() as store:
        running = given.driver(given.executor(), open_policy("full"), store)
        running._conclusions = StumblingOften(Pool(), running._board, running._journal)
        running.run()
    newest = {fit.trial_id: fit.upto_gpu_hours for fit in sorted(rows(given, Fit), key=lambda fit: fit.id)}
    ends: dict[int, float] = {}
    for point in rows(given, Point):
        ends[point.trial_id] = max(point.gpu_hours, ends.get(point.trial_id, 0.0))
    assert newest == pytest.approx(ends)
