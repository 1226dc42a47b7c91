"""Points from what a trainer says: however its lines are cut, repeated and late, and checked before it is believed."""

import json
import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from budgets.errors import TrainingError
from planner.config.trainer import TrainerChoice, chosen_trainer
from planner.recipes import load_recipe
from runner.backends import open_backend
from runner.ports.backend import Point
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.command.options import CheckpointOptions
from runner.trainers.driver import Reading
from runner.trainers.metric_lines import LineSource
from runner.trainers.points import PointMaker, recovered
from runner.training.trial import OpenTrial
from tests.runner.trainers.standins import standin_config

CONFIG = standin_config()
CONFIG = CONFIG.model_copy(update={"task": CONFIG.task.model_copy(update={"max_response_tokens": 512})})
OWN = Path(__file__).parent / "own" / "trainer.toml"
EVERY = 4  # updates between validations


def life(steps: int, first: int = 0) -> list[Reading]:
    """A trainer's readings: where it stands, then each update, and every second one's score on a line of its own."""
    said = [Reading(first, at_seconds=10.0 * first)]
    for step in range(first, steps + 1):
        at = 10.0 * step + 5
        if step > first:
            said.append(Reading(step, at_seconds=at, response_tokens=7.0, metrics={"loss": 1 / step}))
        if step % 2 == 0:
            said.append(Reading(step, 0.3 + step / 100, 0.01, at_seconds=at))
    return said


def taken(maker: PointMaker, batches: Sequence[Sequence[Reading]], began: float = 0.0) -> list[Point]:
    points, now = [], began
    for batch in batches:
        newest = max((reading.at_seconds or 0.0 for reading in batch), default=0.0)
        now = max(now, began + newest) + 0.5  # read half a second late
        points += maker.take(batch, now)
    return points + maker.rest()


@settings(max_examples=60)
@given(st.data(), st.integers(1, 12))
def test_however_lines_are_cut_and_repeated_each_step_is_one_point(data: st.DataObject, last: int) -> None:
    readings = life(last)
    plain = taken(PointMaker(CONFIG, None), [[reading] for reading in readings])
    again = data.draw(st.lists(st.integers(0, len(readings) - 1), max_size=4), label="repeated")
    for index in sorted(again, reverse=True):
        readings.insert(index + 1, readings[index])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(readings)), max_size=5), label="cuts"))
    batches = [readings[a:b] for a, b in pairwise([0, *cuts, len(readings)])]
    points = taken(PointMaker(CONFIG, None), batches)
    assert [point.optimizer_step for point in points] == list(range(last + 1))
    assert [point.score for point in points] == [point.score for point in plain]
    assert [point.tokens for point in points] == [point.tokens for point in plain]
    for before, after in pairwise(points):
        assert after.seconds - before.seconds == pytest.approx(10.0)  # by the trainer's own clock, as it was


@settings(max_examples=30)
@given(st.integers(1, 10), st.integers(1, 10), st.booleans())
def test_a_resumed_trainer_goes_on_where_its_trial_stands(first: int, more: int, knows_its_clock: bool) -> None:
    whole = taken(PointMaker(CONFIG, None), [life(first + more)])
    stands = whole[first]
    said = life(first + more, first)  # which scores its checkpoint once more
    said = [reading if knows_its_clock else replace(reading, at_seconds=None) for reading in said]
    points = taken(PointMaker(CONFIG, stands), [said])
    assert [point.optimizer_step for point in points] == list(range(first + 1, first + more + 1))
    assert [point.score for point in points] == [point.score for point in whole[first + 1 :]]
    assert points[0].seconds >= stands.seconds
    assert recovered(CONFIG, stands, life(first + more), first + more)[-1].seconds == pytest.approx(
        stands.seconds + 10.0 * more
    )


def test_a_trial_that_goes_on_with_more_gpus_keeps_what_it_took_on_fewer() -> None:
    stands = taken(PointMaker(CONFIG, None), [life(4)])[-1]
    wider = CONFIG.model_copy(update={"machine": CONFIG.machine.model_copy(update={"gpus": 8 * CONFIG.machine.gpus})})
    for each in taken(PointMaker(wider, stands), [life(8, 4)]):
        more = (each.seconds - stands.seconds) * wider.machine.gpus / 3600
        assert each.gpu_hours == pytest.approx(stands.gpu_hours + more)


def test_tokens_are_bounded_from_above_where_a_trainer_does_not_count_them_and_none_are_made_at_the_start() -> None:
    base, first = PointMaker(CONFIG, None).take([Reading(0, 0.3, whole=True), Reading(1, whole=True)], 1.0)
    assert base.tokens == 0
    assert "response_tokens_at_most" not in base.metrics
    assert first.tokens == first.metrics["response_tokens_at_most"] * CONFIG.rollouts_per_step


def test_the_phases_that_a_trainer_names_and_the_rest_are_the_time_of_a_point() -> None:
    said = [Reading(0, at_seconds=1.0), Reading(1, at_seconds=4.0, seconds={"train": 2.0, "save": 0.5}, whole=True)]
    (point,) = PointMaker(CONFIG, None).take(said, 4.0)
    assert point.metrics["seconds"] == pytest.approx({"train": 2.0, "save": 0.5, "other": 0.5, "start_up": 2.0})


def test_three_losses_in_a_row_that_are_no_numbers_end_a_trial_and_two_do_not() -> None:
    bad = [Reading(step, metrics={"loss": math.nan}, whole=True) for step in (1, 2)]
    maker = PointMaker(CONFIG, None)
    assert len(list(maker.take([*bad, Reading(3, metrics={"loss": 0.1}, whole=True)], 1.0))) == 3
    points: list[Point] = []
    with pytest.raises(TrainingError, match="3 updates in a row, up to 6") as caught:
        points.extend(maker.take([Reading(step, metrics={"loss": math.inf}, whole=True) for step in (4, 5, 6)], 2.0))
    assert caught.value.kind == "nan"
    assert [point.optimizer_step for point in points] == [4, 5]  # what came before is not lost


@settings(max_examples=40)
@given(st.lists(st.integers(0, 40), max_size=6))
def test_half_a_line_waits_for_its_other_half(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    path = Path(tmp_path_factory.mktemp("lines")) / "metrics.jsonl"
    text = "".join(json.dumps({"step": step}) + "\n" for step in range(4))
    source = LineSource(path, lambda line: [Reading(int(json.loads(line)["step"]))])
    read: list[int] = []
    for start, end in pairwise([0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]):
        with path.open("a") as file:
            file.write(text[start:end])
        read += [reading.step for reading in source.read()]
    assert read == [0, 1, 2, 3]


def in_mode(mode: str) -> TrainerChoice:
    """Return the trainer whose metrics are as a mode says."""
    choice = chosen_trainer(str(OWN), None)
    assert choice is not None
    command = choice.options["command"].replace("--mode plain", f"--mode {mode}")
    return choice.model_copy(update={"options": {**choice.options, "command": command}})


def config(mode: str, **task: Any) -> TrialConfig:
    return TrialConfig(
        task=TaskChoice(name="sum-easy", reward="exact", **task),
        recipe=load_recipe("grpo"),
        rollouts_per_prompt=4,
        prompts_per_batch=2,
        learning_rate=3e-4,
        validation=ValidationPlan(problems=8, samples=2, every_rollouts=8 * EVERY),
        trainer=in_mode(mode),
    )


def trained(given: TrialConfig, folder: Path, to_step: int = 9) -> tuple[list[Point], tuple[str, ...]]:
    """Train a trial from its start; return its points and what was noted."""
    backend: Any = open_backend(given)
    backend.start(given, folder)
    with closing(OpenTrial(backend, folder, None)) as trial:
        points = list(trial.train(to_step))
        trial.save()
        return points, backend.notes


@pytest.mark.parametrize(
    ("mode", "named"),
    [
        ("percent", "score 30 was read at step 0.*reward_range = \\[0, 100\\]"),
        ("micro-batches", "step 16 was read in a segment that ends with update 9"),
        ("jump", "step 1,000,000,000,000,001 was read"),
        ("unscored", "due by step 4: no number was read as 'score'; the columns are step, loss, reward, acc:"),
    ],
)
def test_what_cannot_be_believed_ends_a_trial_and_says_what_was_read(mode: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=named) as caught:
        trained(config(mode), tmp_path)
    assert (caught.value.kind, caught.value.tail) == ("metrics", str(caught.value))


@pytest.mark.parametrize(
    ("mode", "noted", "scores"),
    [("nan", "score = nan at step 4", 1), ("infinite", "response_tokens = inf", 4), ("back", "step 1 was read", 4)],
)
def test_what_is_no_number_or_comes_late_is_passed_over_with_a_note(
    mode: str, noted: str, scores: int, tmp_path: Path
) -> None:
    points, notes = trained(config(mode), tmp_path)
    assert [point.optimizer_step for point in points] == list(range(10))
    assert sum(point.score is not None for point in points) == scores
    assert all(point.score is None or math.isfinite(point.score) for point in points)
    assert any(noted in note for note in notes)


def test_scores_in_percent_are_taken_by_the_range_of_the_reward(tmp_path: Path) -> None:
    points, notes = trained(config("percent", reward_range=[0.0, 100.0]), tmp_path)
    assert points[0].score == pytest.approx(0.3)
    assert notes == ()


@pytest.mark.parametrize("pattern", ["../../ck/checkpoint-{step}.pt", "../checkpoint-{step}", "a/../checkpoint-{step}"])
def test_a_pattern_of_checkpoints_stays_in_its_trials_folder(pattern: str) -> None:
    with pytest.raises(ValidationError, match=r"no \.\."):
        CheckpointOptions(pattern=pattern)
