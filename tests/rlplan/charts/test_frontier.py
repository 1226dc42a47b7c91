"""The frontier's picture says what the answer says."""

from typing import Any

import pytest

from rlplan.charts.chart import Chart
from rlplan.charts.frontier import frontier_chart
from tests.rlplan.charts.stories import NOTHING, finished, under_way


def traces(chart: Chart | None) -> dict[str, dict[str, Any]]:
    assert chart is not None
    return {trace["name"]: trace for trace in chart.figure["data"] if "name" in trace}


def test_what_to_take_is_drawn_at_every_spend_of_the_frontier() -> None:
    told, believed = finished()
    assert believed.recommended is not None
    answer = believed.recommended.answer
    drawn = traces(frontier_chart(told, believed))
    taken = drawn["what to take, expected"]
    points = [(each.gpu_hours, each.choice) for each in answer.frontier if each.choice is not None]
    assert list(zip(taken["x"], taken["y"], strict=True)) == [(spend, each.expected_score) for spend, each in points]
    assert drawn["n to take"]["y"] == [each.rollouts_per_prompt for _, each in points]


@pytest.mark.parametrize("beliefs", [None, NOTHING])
def test_without_a_recommendation_the_best_scores_seen_are_drawn(beliefs: Any) -> None:
    told = under_way()
    best = traces(frontier_chart(told, beliefs))["best score seen"]
    highest = max(score.score for trial in told.picture.trials for score in trial.scores if score.gpu_hours > 0)
    assert best["y"] == sorted(best["y"])
    assert best["y"][-1] == highest
