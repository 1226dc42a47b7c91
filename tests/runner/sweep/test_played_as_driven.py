"""A replay of a plan spends what its sweep does in the same world, start-ups, reservations and waiting alike."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from planner.policy.grants import idle_gpu_hours
from planner.policy.policies import open_policy
from planner.replay.game import PilotTerms
from planner.replay.play import Played, highest_last_score, play
from planner.replay.recorded import Recorded, RecordedRun
from planner.store.schema import Candidate
from planner.view import Configuration
from runner.ports.trial import Costs, SimulationChoice
from runner.simulation.world import course_of
from runner.sweep.plan_rows import configuration_of
from tests.runner.sweep.simulated_sweeps import SimulatedSweep

START_UP_SECONDS = 40.0
CHOICE = SimulationChoice(
    costs=Costs(
        seconds_per_update=0.5,
        seconds_per_rollout=0.004,
        spread=0.0,
        seconds_per_answer=0.0,
        start_up_seconds=START_UP_SECONDS,
    )
)


class InOrder(Recorded):
    """Its runs are laid out as a plan has them."""

    def in_order(self, seed: int) -> Iterator[RecordedRun]:
        yield from self.runs


def priced(sweep: SimulatedSweep) -> None:
    """Let the plan know what its world costs."""
    with sweep.store() as store, store.write() as session:
        for row in session.scalars(select(Candidate)):
            costs = CHOICE.costs
            seconds = costs.seconds_per_update + costs.seconds_per_rollout * row.rollouts_per_prompt * (
                row.prompts_per_batch
            )
            row.gpu_hours_per_step = row.pilot_gpu_hours_per_step = seconds / 3600
            row.pilot_gpu_hours = (START_UP_SECONDS + row.pilot_steps * seconds) / 3600 if row.pilot_steps else 0.0
    with sweep.store() as store:
        sweep.plan = store.plan(sweep.plan.name)


def played(sweep: SimulatedSweep, policy: str) -> Played:
    runs, pilots = [], {}
    for row in sweep.plan.candidates:
        if not row.pilot_steps:
            continue
        config = sweep.spec.trial(configuration_of(row), row.learning_rate, 0)
        course, most = course_of(config), max(row.pilot_steps, row.update_steps)
        points = [course.point(step) for step in course.scored_steps(-1, most)]
        cell = Configuration(row.rollouts_per_prompt, row.prompts_per_batch)
        hours, scores = (np.array(values) for values in zip(*((at.gpu_hours, at.score) for at in points), strict=True))
        runs.append(RecordedRun(str(row.rank), cell, 0, hours, scores))
        pilots[cell] = PilotTerms(
            row.gpu_hours_per_step, START_UP_SECONDS / 3600, row.pilot_steps, row.segment_steps, most
        )
    return play(
        InOrder(tuple(runs)),
        open_policy(policy),
        budget=sweep.spec.pilot_gpu_hours,
        target=sweep.spec.target_gpu_hours,
        seed=sweep.spec.seed,
        workers=sweep.workers,
        chooser=highest_last_score,
        trace=False,
        pilots=pilots,
        idle_gpu_hours=idle_gpu_hours(sweep.workers, START_UP_SECONDS / 3600, 1),
    )


@pytest.mark.parametrize(("policy", "workers"), [("asha", 1), ("hyperband", 4)])
def test_a_replay_with_start_ups_spends_what_the_sweep_does(tmp_path: Path, policy: str, workers: int) -> None:
    sweep = SimulatedSweep(tmp_path / "rlplan.db", workers=workers, policy=policy, choice=CHOICE, budget=4.0)
    priced(sweep)
    outcome, replay = sweep.run(open_policy(policy)), played(sweep, policy)
    # Several workers wait now and then, and the driver looks after them every five seconds.
    tolerance = 1e-9 if workers == 1 else 0.01 * sweep.spec.pilot_gpu_hours
    assert replay.gpu_hours_spent == pytest.approx(outcome.spent_gpu_hours, abs=tolerance)
    assert outcome.decisions - replay.decisions in ((0, 1) if workers == 1 else range(5))  # it notes why it ends
    assert outcome.overrun_gpu_hours == 0
