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
    taken, points = drawn["what to take, expected"], answer.frontier.points
    assert taken["x"] == sorted(taken["x"])
    count = len(points)
    assert taken["x"][-count:] == [point.gpu_hours for point in points]
    assert taken["y"][-count:] == [point.choice.expected_score for point in points]
    assert drawn["n to take"]["y"][-count:] == [point.choice.rollouts_per_prompt for point in points]
    assert drawn["best of all, expected"]["y"] == [point.best_expected for point in points]
    cheaper = [choice.gpu_hours for choice in answer.pareto.points if choice.gpu_hours < 0.9 * points[0].gpu_hours]
    assert taken["x"][: len(cheaper)] == cheaper


@pytest.mark.parametrize("beliefs", [None, NOTHING])
def test_without_a_recommendation_the_best_scores_seen_are_drawn(beliefs: Any) -> None:
    told = under_way()
    best = traces(frontier_chart(told, beliefs))["best score seen"]
    highest = max(score.score for trial in told.picture.trials for score in trial.scores if score.gpu_hours > 0)
    assert best["y"] == sorted(best["y"])
    assert best["y"][-1] == highest
