"""Points from what a trainer says, however its lines are cut, repeated and late."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import TrainingError
from runner.ports.backend import Point
from runner.trainers.driver import Reading
from runner.trainers.metric_lines import LineSource
from runner.trainers.points import PointMaker, recovered
from tests.runner.trainers.standins import standin_config

CONFIG = standin_config()
CONFIG = CONFIG.model_copy(update={"task": CONFIG.task.model_copy(update={"max_response_tokens": 512})})


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
