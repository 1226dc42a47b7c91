"""Pictures of a sweep, and its report."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

import rlplan
from rlplan.charts.chart import ACCENT, BAD, INK, LINE, SCALE, SERIES
from rlplan.charts.figures import DRAWN, PictureKind, colour, coloured, palette
from tests.rlplan.sweep_rows import seeded


def test_every_picture_is_a_figure_in_the_colours_of_its_theme(sweep: rlplan.Sweep) -> None:
    for kind in get_args(PictureKind):
        for dark in (False, True):
            figure = sweep.plot(kind, dark=dark)
            drawn = figure.to_json()
            assert figure.data
            assert not re.search(r'"\$[a-z]', drawn)
            assert figure.layout.template.layout.paper_bgcolor == palette(dark)["surface"]


def test_curves_have_a_panel_for_each_configuration(sweep: rlplan.Sweep) -> None:
    figure = sweep.plot("curves")
    configurations = {(t.rollouts_per_prompt, t.prompts_per_batch) for t in sweep.picture.trials if t.scores}
    assert len(figure.layout.annotations) == len(configurations)
    spans = [(axis.domain, figure.layout[f"yaxis{axis.anchor[1:]}"].domain) for axis in figure.select_xaxes()]
    assert len(set(spans)) == len(configurations)
    assert all(0 <= low < high <= 1 for pair in spans for low, high in pair)


def test_a_curve_has_the_scores_of_its_trial(sweep: rlplan.Sweep) -> None:
    several = [each for each in sweep.picture.trials if len(each.scores) > 2]
    trial = min(several, key=lambda each: len(each.scores))  # long curves are thinned
    drawn = [list(trace.y) for trace in sweep.plot("curves").data if trace.y is not None]
    assert any(y == pytest.approx([score.score for score in trial.scores], rel=1e-4) for y in drawn)


def test_another_picture_is_refused(sweep: rlplan.Sweep) -> None:
    kind: Any = "curve"
    with pytest.raises(rlplan.UnknownNameError, match="did you mean 'curves'"):
        sweep.plot(kind)
    assert tuple(DRAWN) == get_args(PictureKind)


def test_what_is_not_there_yet_is_not_drawn(tmp_path: Path) -> None:
    seeded(tmp_path / "rlplan.db").store.close()
    sweep = rlplan.open().sweep()
    assert sweep.beliefs.recommended is None
    assert sweep.plot("timeline").data


def test_only_colours_are_looked_up() -> None:
    trace = {"name": "$accent", "line": {"color": "$accent"}, "fillcolor": "$ink/0.5", "text": ["$bad"]}
    scale = {"colorscale": [[0, "$scale-0"]]}
    themed = coloured({"data": [trace, scale]}, dark=False)["data"]
    assert themed[0]["name"] == "$accent"
    assert themed[0]["text"] == ["$bad"]
    assert themed[0]["line"]["color"] == palette(False)["accent"]
    assert re.fullmatch(r"rgba\(\d+, \d+, \d+, 0\.5\)", themed[0]["fillcolor"])
    assert themed[1]["colorscale"] == [[0, palette(False)["scale-0"]]]


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_has_every_colour_that_charts_name(dark: bool) -> None:
    for name in (INK, LINE, ACCENT, BAD, *SERIES, *(name for _, name in SCALE)):
        assert re.fullmatch("#[0-9a-f]{6}", colour(str(name), dark))


def test_the_report_is_written(sweep: rlplan.Sweep) -> None:
    assert sweep.report("report.html") == Path("report.html")
    assert sweep.name in Path("report.html").read_text(encoding="utf-8")
    with pytest.raises(rlplan.InputError):
        sweep.report("report.txt")
