"""The pictures of a sweep: the right numbers, the marks of what happened, and no more points than a picture shows."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from planner.belief.forecasts import Band
from planner.store.schema import SegmentOutcome
from planner.view import Configuration, ScorePoint, TrialState
from rlplan.charts.chart import Chart, Trace
from rlplan.charts.curves import curve_panels
from rlplan.charts.grid import frontier_chart, heat_maps
from rlplan.charts.money import budget_chart, timeline, uses
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import TrialRow
from tests.rlplan.charts.stories import empty, finished, under_way, with_trials

BAND = Band((0.0, 1000.0, 4000.0), (0.3, 0.6, 0.7), (0.2, 0.5, 0.6), (0.4, 0.7, 0.8))


def first_trial() -> TrialRow:
    return under_way().picture.trials[0]


def scores(chart: Chart) -> Trace:
    return next(trace for trace in chart.figure["data"] if "step" in trace["hovertemplate"] and "y" in trace)


def symbols(chart: Chart) -> set[str]:
    return {trace["marker"]["symbol"] for trace in chart.figure["data"] if "symbol" in trace.get("marker", {})}


def test_panels_come_by_rank_one_for_each_configuration_that_ran() -> None:
    told, believed = finished()
    assert believed.recommended is not None
    panels = curve_panels(told, believed).charts
    ranks = [group.rank for group, _ in panels if group.rank]
    assert ranks == sorted(ranks)
    assert len(panels) == len({(t.rollouts_per_prompt, t.prompts_per_batch, t.axes) for t in told.picture.trials})
    assert len({chart.name for _, chart in panels}) == len(panels)


def test_many_trials_have_fewer_points_each() -> None:
    long = [ScorePoint(step, float(step), 0.001 * step, None) for step in range(1, 301)]
    told = under_way()

    def drawn(trials: int) -> list[int]:
        many = [replace(first_trial(), id=n, rollouts_per_prompt=n, scores=tuple(long)) for n in range(1, trials + 1)]
        return [len(scores(chart)["x"]) for _, chart in curve_panels(with_trials(told, *many), None).charts]

    assert all(150 < points <= 200 for points in drawn(2))
    assert all(24 <= points <= 40 for points in drawn(500))


def test_bands_and_cuts_are_drawn_where_they_are_believed() -> None:
    trial = first_trial()
    told = with_trials(under_way(), trial)
    ((_, chart),) = curve_panels(told, Beliefs(None, "not yet", {trial.id: BAND}, {trial.id: 1500.0})).charts
    median = next(trace for trace in chart.figure["data"] if "fitted mean" in trace["hovertemplate"])
    assert (list(median["x"]), list(median["y"])) == ([1000.0, 4000.0], [0.6, 0.7])  # 0 is no place on a log axis
    assert [shape["x0"] for shape in chart.figure["layout"]["shapes"]] == [told.target_gpu_hours, 1500.0]


@pytest.mark.parametrize("state", [TrialState.PRUNED, TrialState.FAILED, TrialState.LOST])
def test_how_a_trial_ended_badly_is_marked(state: TrialState) -> None:
    told = under_way()
    ((_, before),) = curve_panels(with_trials(told, replace(first_trial(), state=TrialState.PAUSED)), None).charts
    ((_, after),) = curve_panels(with_trials(told, replace(first_trial(), state=state)), None).charts
    assert symbols(after) - symbols(before) == {"x-thin-open"}


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


def test_every_ranked_allocation_has_its_score_and_chance_in_its_cell() -> None:
    told, believed = finished()
    assert believed.recommended is not None
    variants = heat_maps(told, believed)
    assert variants[0].has_chosen
    for choice in believed.recommended.answer.ranked:
        n, B = str(choice.rollouts_per_prompt), str(choice.prompts_per_batch)
        found = []
        for chart in (variants[0].score, variants[0].best):
            heat = chart.figure["data"][0]
            found.append(heat["z"][heat["y"].index(B)][heat["x"].index(n)])
        assert found == [choice.expected_score, choice.probability_best]


def test_what_a_trial_has_seen_is_bold_and_a_cell_without_a_number_has_a_dash() -> None:
    told, believed = finished()
    trained = {(f"{trial.rollouts_per_prompt}", f"{trial.prompts_per_batch}") for trial in told.picture.trials}
    labels = heat_maps(told, believed)[0].score.figure["data"][1]
    cells = zip(labels["x"], labels["y"], labels["text"], strict=True)
    assert {(n, B) for n, B, label in cells if label.startswith("<b>0")} == trained
    (variant,) = heat_maps(replace(empty(), planned=(Configuration(4, 8), Configuration(16, 8))), None)
    heat, labels = variant.score.figure["data"]
    assert heat["x"] == ["4", "8", "16"]
    assert sorted(zip(labels["x"], labels["text"], strict=True)) == [("16", "–"), ("4", "–")]


def test_each_setting_of_the_further_axes_has_its_own_maps() -> None:
    planned = tuple(Configuration(4, 8, (("recipe", kind),)) for kind in ("easy", "hard"))
    variants = heat_maps(replace(empty(), planned=planned), None)
    assert [variant.label for variant in variants] == ["easy", "hard"]
    names = [chart.name for variant in variants for chart in (variant.score, variant.best)]
    assert len(set(names)) == 4


@pytest.mark.parametrize("tell", [under_way, lambda: finished()[0]])
def test_the_uses_add_up_to_the_pilots_budget(tell: Callable[[], Story]) -> None:
    told = tell()
    money = told.picture.money
    parts = [gpu_hours for gpu_hours, _ in uses(told).values()]
    assert sum(parts) == pytest.approx(money.spent + money.reserved_gpu_hours + money.left)
    drawn = [trace for trace in budget_chart(told).figure["data"] if trace["y"] == ["pilots"]]
    assert [trace["x"][0] for trace in drawn] == parts


def test_every_segment_is_a_bar_from_its_start_to_its_end_in_the_colour_of_what_became_of_it() -> None:
    told = under_way()
    chart = timeline(told, None)
    assert chart is not None
    bars = {trace["name"]: trace for trace in chart.figure["data"] if trace["type"] == "bar"}
    lengths = sorted(length for trace in bars.values() for length in trace["x"])
    ends = [segment.ended_at or told.read_at for segment in told.segments]
    expected = [
        (end - segment.started_at) // timedelta(milliseconds=1)
        for end, segment in zip(ends, told.segments, strict=True)
    ]
    assert lengths == sorted(max(1, length) for length in expected)
    failed = [segment for segment in told.segments if segment.outcome is SegmentOutcome.FAILED]
    assert len(bars["failed"]["x"]) == len(failed) > 0
    assert "/" in {shape for trace in bars.values() for shape in trace["marker"]["pattern"]["shape"]}
    assert timeline(empty(), None) is None
