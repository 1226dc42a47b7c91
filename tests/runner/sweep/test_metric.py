"""A sweep that compares by the best or the worst of several answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from budgets.errors import InputError
from planner.store.read_model import sweep_snapshot
from planner.store.schema import Fit
from rlplan.reading.sweep_rows import picture
from runner.ports.backend import Point
from runner.ports.trial import SimulationChoice, TrialConfig
from runner.simulation.surfaces import Surface
from runner.simulation.world import Course
from runner.sweep.plan import SweepChoice, sweep_spec
from runner.sweep.state import SweepState
from tests.planner.store import samples
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.simulated.executor import SimulatedExecutor


class CourseOfFour(Course):
    """The best of four answers is right half as often again as one is, and the worst half as often."""

    def point(self, step: int) -> Point:
        made = super().point(step)
        return made if made.score is None else replace(made, further_scores=beside(made.score))


def course_of_four(config: TrialConfig) -> Course:
    assert config.simulation is not None
    return CourseOfFour(SimulationChoice(), Surface(config.simulation), config)


def beside(mean: float) -> dict[str, tuple[float, float]]:
    return {"best@4": (min(1.0, 1.5 * mean), 0.01), "worst@4": (0.5 * mean, 0.03)}


def compared_by(sweep: SimulatedSweep, metric: str) -> None:
    rule = sweep.spec.training.validation.model_copy(update={"metric": metric})
    sweep.spec = sweep.spec.model_copy(update={"training": sweep.spec.training.model_copy(update={"validation": rule})})
    with sweep.store() as store, store.write() as session:
        sweep_snapshot(session, sweep.name).sweep.config = sweep.spec.model_dump(mode="json")


def ran(folder: Path, metric: str) -> SimulatedSweep:
    sweep = SimulatedSweep(folder / "rlplan.db", policy="full")
    compared_by(sweep, metric)
    executor = SimulatedExecutor(sweep.workers, course=course_of_four)
    sweep.drive(executor)
    return sweep


def test_curves_decisions_and_pictures_are_of_the_metric(tmp_path: Path) -> None:
    sweep = ran(tmp_path, "worst")
    with sweep.store() as store:
        with store.read() as session:
            stands = sweep_snapshot(session, sweep.name)
            fits = {fit.trial_id: fit for fit in session.scalars(select(Fit))}
        board = SweepState(sweep.spec, stands)
        shown = picture(store, sweep.name)
        for trial in shown.trials:
            stored = [point for point in samples.points(store, trial.id) if point.score is not None]
            wanted = [(point.optimizer_step, 0.5 * point.score, 0.03) for point in stored]
            for scores in (stands.scores[trial.id], board.trials[trial.id].scores, trial.scores):
                assert [(each.step, each.score, each.standard_error) for each in scores] == wanted
        before = np.mean([trial.scores[0].score for trial in shown.trials])  # all begin at one score
        trained = {trial.id for trial in shown.trials if any(score.step for score in trial.scores)}
        assert trained
        assert fits.keys() == trained
        for fit in fits.values():
            start = fit.parameters["R0"]
            assert start["low"] - 0.05 < before < start["high"] + 0.05
    assert shown.metric == "worst@4"


def test_a_world_that_knows_the_mean_alone_is_refused(tmp_path: Path) -> None:
    plan = SimulatedSweep(tmp_path / "rlplan.db").plan
    plan.config = {**plan.config, "validation": {**plan.config["validation"], "metric": "best"}}
    simulation = SimulationChoice().model_dump(mode="json")
    with pytest.raises(InputError, match=r"compares by the best .* knows their mean alone"):
        sweep_spec(plan, SweepChoice(folder=tmp_path, simulation=simulation))
    chosen = sweep_spec(plan, SweepChoice(folder=tmp_path))
    assert chosen.training.validation.target.name == "best@4"
