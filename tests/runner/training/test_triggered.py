"""A real, tiny training whose reward is made to fall: it is validated then, and trained as if it had not been."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from planner.recipes.schema import Recipe, Schedule
from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Point, Segment
from runner.ports.task import Problem
from runner.ports.trial import TrialConfig, ValidationPlan
from runner.training import checkpoints
from tests.runner.backends.runs import assert_same_state, without_time
from tests.runner.tiny import _score, tiny_config

pytestmark = pytest.mark.usefixtures("tiny_trials")

FALLS, EVERY, STEPS = 30, 40, 44
STOPS = (10, 31, 33, 36, 41)  # before the fall, while it is seen, after both validations


def config(*, triggered: bool) -> TrialConfig:
    recipe = Recipe(name="plain", schedule=Schedule(updates_per_batch=2))
    plan = ValidationPlan(problems=8, samples=2, every_rollouts=EVERY * 8 * 8, triggered=triggered)
    return tiny_config(recipe, n=8, B=8, learning_rate=3e-3, validation=plan)


class World:
    """Rewards that are worth nothing any more once it is told so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.falls = False
        monkeypatch.setattr("tests.runner.tiny._score", self._score)

    def _score(self, problem: Problem, text: str) -> float:
        return 0.0 if self.falls else _score(problem, text)

    def trained(self, given: TrialConfig, folder: Path, stops: Sequence[int] = ()) -> tuple[list[Point], object]:
        """Train to the end, with a new process's worth of objects at each stop."""
        self.falls = False
        backend = BuiltinBackend()
        backend.start(given, folder)
        points: list[Point] = []
        for to_step in sorted({FALLS, STEPS, *stops}):
            points += backend.advance(Segment(to_step))
            self.falls = to_step >= FALLS
            backend.checkpoint()
            if to_step in stops:
                backend.close()
                backend = BuiltinBackend()
                backend.restore(given, folder)
        backend.close()
        return points, checkpoints.load(folder).state["trainer"]


def scored(points: Sequence[Point]) -> list[int]:
    return [point.optimizer_step for point in points if point.score is not None]


def test_a_fall_is_validated_at_once_and_after_restarts_alike_and_changes_no_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch)
    plain, state = world.trained(config(triggered=False), tmp_path / "plain")
    points, same = world.trained(config(triggered=True), tmp_path / "triggered")
    cut, resumed = world.trained(config(triggered=True), tmp_path / "cut", STOPS)
    assert without_time(cut) == without_time(points)
    assert_same_state(resumed, same)
    assert scored(plain) == [0, EVERY]
    (extra,) = set(scored(points)) - set(scored(plain))
    assert FALLS < extra < EVERY
    asked = points[extra]
    assert asked.metrics["reward_fell"] > 0.1
    assert asked.score == 0.0
    assert not set(asked.flags) & {"validation-fall", "reward-hacking"}  # one score is no fall yet
    assert [each.metrics.get("pass_rate") for each in points] == [each.metrics.get("pass_rate") for each in plain]
    for each in (state, same):
        assert isinstance(each, dict)
        each.pop("trigger", None)
        each.pop("health")  # the flags remember one score more
    assert_same_state(same, state)


def test_a_final_run_goes_on_from_the_checkpoint_of_a_pilot_that_had_no_trigger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    World(monkeypatch)
    pilot = BuiltinBackend()
    pilot.start(config(triggered=False), tmp_path)
    list(pilot.advance(Segment(2)))
    assert "trigger" not in checkpoints.load(pilot.checkpoint().path.parent).state["trainer"]
    pilot.close()
    final = BuiltinBackend()
    assert final.restore(config(triggered=True), tmp_path) == 2
    assert final.notes == ()
    final.close()
