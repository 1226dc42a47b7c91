"""The page on trainers: what it shows is what is there, and its example trains."""

import json
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from planner.config.trainer import TRAINERS, Patience, chosen_trainer
from planner.recipes import load_recipe
from runner.backends import open_backend
from runner.ports.backend import Point
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.command.driver import driver
from runner.trainers.command.options import CheckpointOptions, CommandOptions, MetricsOptions, values_of
from runner.trainers.driver import Attempt
from runner.training.trial import OpenTrial
from tests.docs.lines import ROOT

EXAMPLE = ROOT / "examples" / "own_trainer"
PAGE = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")


def config(**changes: object) -> TrialConfig:
    given = {
        "task": TaskChoice(name="sum-easy", reward="exact"),
        "recipe": load_recipe("grpo"),
        "rollouts_per_prompt": 4,
        "prompts_per_batch": 2,
        "learning_rate": 3e-4,
        "validation": ValidationPlan(problems=8, samples=2, every_rollouts=16),
        "trainer": chosen_trainer(str(EXAMPLE / "grpo.toml"), None),
    }
    return TrialConfig.model_validate({**given, **changes})


def test_the_example_stands_on_the_page_as_it_is() -> None:
    assert (EXAMPLE / "grpo.toml").read_text(encoding="utf-8") in PAGE


def test_every_key_and_every_placeholder_stands_on_the_page_and_no_other() -> None:
    keys = {*CommandOptions.model_fields, *Patience.model_fields} - {"here", "metrics", "checkpoints"}
    further = [f"[metrics] {each}" for each in MetricsOptions.model_fields if each != "columns"]
    further += [f"[checkpoints] {each}" for each in CheckpointOptions.model_fields]
    assert [
        key for key in (*keys, *further, "[metrics.columns]") if f"`{key}`" not in PAGE and f"`[{key}]`" not in PAGE
    ] == []
    shown = re.search(r"### The placeholders\n(.*?)\n### ", PAGE, re.DOTALL) or re.search(
        r"### The placeholders\n(.*?)\n## ", PAGE, re.DOTALL
    )
    assert shown is not None
    table = set(re.findall(r"`\{([a-z_.]+)\}`", shown[1]))
    known = values_of(config(), driver(config()).options, Attempt(Path("/"), 1, 0, 1, None), 0)
    assert {name for name in known if not name.startswith("recipe.")} <= table <= set(known)
    assert all(f"`{name}`" in PAGE for name in TRAINERS)


def test_the_example_can_be_run_by_every_kind_of_trial() -> None:
    driver(config()).check(config())


def trained(folder: Path, *until: int) -> list[Point]:
    folder.mkdir()
    points: list[Point] = []
    for number, step in enumerate(until):
        backend = open_backend(config())
        at = backend.restore(config(), folder) if number else None
        if not number:
            backend.start(config(), folder)
        with closing(OpenTrial(backend, folder, at)) as trial:
            points += trial.train(step)
            trial.save()
    return points


def essence(points: Sequence[Point]) -> str:
    return json.dumps([(each.optimizer_step, each.score, each.metrics.get("loss"), each.tokens) for each in points])


def test_the_example_trains(tmp_path: Path) -> None:
    points = trained(tmp_path / "trial", 1)
    assert [point.optimizer_step for point in points] == [0, 1]
    assert points[0].score is not None
    assert points[1].metrics["response_tokens"] > 1
    assert points[0].metrics["seconds"]["start_up"] > 0


@pytest.mark.soak
def test_the_example_goes_on_bit_for_bit(tmp_path: Path) -> None:
    assert essence(trained(tmp_path / "one", 2, 4)) == essence(trained(tmp_path / "two", 4))
