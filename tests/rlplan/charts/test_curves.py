"""The small multiples: the right numbers, the marks of what happened, and no more points than a picture shows."""

from dataclasses import replace

import pytest

from planner.pooling.bands import Band
from planner.trials import TrialState
from planner.view import Seen
from rlplan.charts.chart import Chart, Trace
from rlplan.charts.curves import curve_panels
from rlplan.reading.story import Beliefs
from rlplan.reading.sweep_picture import TrialRow
from tests.rlplan.charts.stories import finished, under_way, with_trials

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


def test_a_point_shows_its_step_gpu_hours_score_and_error() -> None:
    trial = first_trial()
    ((_, chart),) = curve_panels(with_trials(under_way(), trial), None).charts
    drawn = scores(chart)
    trained = [score for score in trial.scores if score.gpu_hours > 0]
    assert drawn["x"] == [score.gpu_hours for score in trained]
    assert drawn["y"] == pytest.approx([score.score for score in trained], abs=1e-5)
    assert drawn["customdata"] == [score.step for score in trained]
    assert drawn["error_y"]["array"] == [score.standard_error for score in trained]
    assert "error_y.array" in drawn["hovertemplate"]


def test_many_trials_have_fewer_points_each() -> None:
    long = [Seen(step, float(step), 0.001 * step, None) for step in range(1, 301)]
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
