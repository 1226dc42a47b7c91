"""Trials of sum-steps whose long answers are interrupted and have to say the sum after `;=`."""

from pathlib import Path

from planner.recipes import load_recipe
from planner.recipes.schema import Recipe
from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Segment
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from tests.runner.backends.runs import resumed_alike
from tests.runner.tiny import tiny_config

SCALERL = load_recipe("scalerl")
IN_TIME = Recipe(name="in-time", interruptions=SCALERL.interruptions)


def trial(recipe: Recipe) -> TrialConfig:
    validation = ValidationPlan(problems=16, samples=2, every_rollouts=32)
    return tiny_config(recipe, n=4, B=4, task=TaskChoice(name="sum-steps"), validation=validation, learning_rate=1e-4)


def test_what_follows_a_phrase_is_scored_under_the_phrase_by_trainer_and_sampler_alike(tmp_path: Path) -> None:
    backend = BuiltinBackend()
    backend.start(trial(IN_TIME), tmp_path)
    *_, point = backend.advance(Segment(2))
    backend.close()
    assert point.metrics["interrupted_share"] > 0.1
    assert point.metrics["mismatch_max"] < 1e-3


def test_an_interrupted_trial_resumes_exactly(tmp_path: Path) -> None:
    points = resumed_alike(trial(SCALERL), tmp_path, 2, stops=(1,))
    assert max(point.metrics.get("interrupted_share", 0) for point in points) > 0
