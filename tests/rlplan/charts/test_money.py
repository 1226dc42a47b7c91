"""The budget's bar adds up, and the timeline has every segment on its worker."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from rlplan.charts.budget import budget_chart, timelines, used
from rlplan.reading.story import Story
from tests.rlplan.charts.stories import finished, under_way


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
