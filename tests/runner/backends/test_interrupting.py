"""Trials of sum-steps whose long answers are interrupted and have to say the sum after `;=`."""

from pathlib import Path

import pytest

from planner.recipes import load_recipe
from planner.recipes.schema import Interruptions, Recipe
from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Segment
from runner.ports.task import Problem
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from tests.runner.backends.runs import assert_same_state, run, without_time
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
    points, state = run(trial(SCALERL), tmp_path / "whole", 4)
    resumed, same = run(trial(SCALERL), tmp_path / "cut", 4, stops=(1, 3))
    assert max(point.metrics.get("interrupted_share", 0) for point in points) > 0
    assert without_time(resumed) == without_time(points)
    assert_same_state(same, state)


def test_the_sum_alone_is_right_after_the_phrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    early = Interruptions(earliest=0.25, phrase="=")  # a task with a phrase of its own does not take this one
    backend = BuiltinBackend()
    backend.start(trial(Recipe(name="early", interruptions=early)), tmp_path)
    reward = backend._opened().task.reward  # a backend has no other window on its task
    score = reward.score

    def listening(problems: list[Problem], responses: list[str]) -> object:
        told.extend((problem.answer, text) for problem, text in zip(problems, responses, strict=True))
        return score(problems, responses)

    monkeypatch.setattr(reward, "score", listening)
    next(iter(backend.advance(Segment(0))))
    backend.close()
    alone = [(answer, text) for answer, text in told if "=" not in answer]
    assert len(alone) > 0.7 * len(told)
    assert all(answer.isdigit() for answer, _ in alone)
    assert not any(";" in text for _, text in alone), "the phrase itself is no part of what is scored"
