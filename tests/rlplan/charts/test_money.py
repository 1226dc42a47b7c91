"""The budget's bar adds up, and the timeline has every segment on its worker."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from planner.store.schema import SegmentOutcome, SweepStatus
from rlplan.charts.budget import budget_chart, timelines, used
from rlplan.reading.story import Story
from rlplan.reading.sweep_picture import Driver
from tests.rlplan.charts.stories import empty, finished, under_way


@pytest.mark.parametrize("tell", [under_way, lambda: finished()[0]])
def test_the_uses_add_up_to_the_pilots_budget(tell: Callable[[], Story]) -> None:
    told = tell()
    money = told.picture.money
    assert sum(use.gpu_hours for use in used(told)) == pytest.approx(money.spent + money.reserved + money.left)
    drawn = [trace for trace in budget_chart(told).figure["data"] if trace["y"] == ["pilots"]]
    assert [trace["x"][0] for trace in drawn] == [use.gpu_hours for use in used(told)]


def test_every_segment_is_a_bar_from_its_start_to_its_end() -> None:
    told = under_way()
    for chart in timelines(told, None):
        bars = [trace for trace in chart.figure["data"] if trace["type"] == "bar"]
        assert sum(len(trace["x"]) for trace in bars) == len(told.stretches)
        lengths = sorted(length for trace in bars for length in trace["x"])
        ends = [each.ended_at or told.read_at for each in told.stretches]
        expected = sorted(
            (end - each.started_at) // timedelta(milliseconds=1) for end, each in zip(ends, told.stretches, strict=True)
        )
        assert lengths == [max(1, length) for length in expected]


def test_failures_are_a_colour_of_their_own_and_waiting_is_marked() -> None:
    told = under_way()
    by_outcome, _ = timelines(told, None)
    named = {trace["name"] for trace in by_outcome.figure["data"]}
    assert {"trained", "under way", "charged for waiting or loss"} <= named
    failed = replace(told, stretches=tuple(replace(each, outcome=SegmentOutcome.FAILED) for each in told.stretches))
    colours = {
        trace["marker"]["color"] for trace in timelines(failed, None)[0].figure["data"] if trace["type"] == "bar"
    }
    assert colours == {"$bad"}


def test_what_a_lost_driver_left_open_ends_when_it_was_last_heard_of() -> None:
    told = under_way()
    gone = Driver(pid=1, host="here", silent_seconds=60.0, alive=False)
    lost = replace(told, picture=replace(told.picture, status=SweepStatus.RUNNING, driver=gone))

    def longest(story: Story) -> int:
        return max(
            max(trace["x"]) for trace in timelines(story, None)[0].figure["data"] if trace["name"] == "under way"
        )

    assert longest(told) - longest(lost) == 60_000


def test_a_time_zone_does_not_move_a_segment() -> None:
    told = under_way()
    base = timelines(told, None)[0].figure["data"][0]["base"][0]
    assert base == f"{told.stretches[0].started_at:%Y-%m-%d %H:%M:%S}.000"


def test_before_the_first_segment_there_is_no_timeline() -> None:
    assert timelines(empty(), None) == ()
