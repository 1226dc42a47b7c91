"""The charts of a sweep as plotly figures, for a notebook: in one panel or several, in the theme's colours."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from budgets.errors import NotFoundError, UnknownNameError
from rlplan.charts.budget import budget_chart, timelines
from rlplan.charts.chart import MARGIN, Chart, text
from rlplan.charts.curves import curve_panels
from rlplan.charts.frontier import frontier_chart
from rlplan.charts.heat import heat_maps
from rlplan.reading.story import Beliefs, Story

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PictureKind: TypeAlias = Literal["curves", "frontier", "heat", "budget", "timeline"]
Draw: TypeAlias = Callable[[Story, Beliefs], dict[str, Any] | None]

CURVE_COLUMNS, MAP_COLUMNS, TIME_COLUMNS = 3, 2, 1
BELOW_TIME = 80  # pixels: its ticks are of two lines, and have a title


def figure(story: Story, beliefs: Beliefs, kind: str, *, dark: bool) -> "Figure":
    """Return the picture of that name; UnknownNameError for another, NotFoundError when there is nothing to draw."""
    if kind not in DRAWN:
        raise UnknownNameError("picture", str(kind), DRAWN)
    drawn = DRAWN[kind](story, beliefs)
    if drawn is None:
        raise NotFoundError(f"{story.picture.sweep} has nothing yet that the {kind} could be drawn from: wait for it")
    from plotly.graph_objects import Figure

    themed = coloured(drawn, dark)
    return Figure(data=themed["data"], layout={**themed["layout"], "template": _template(dark)})


def _whole(chart: Chart) -> dict[str, Any]:
    layout = {**chart.figure["layout"], "height": chart.height}
    return {"data": chart.figure["data"], "layout": layout}


def _curves(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    charts = curve_panels(story, beliefs).charts
    if not charts:
        return None
    return grid(
        [(group.label, chart) for group, chart in charts], CURVE_COLUMNS, titles=("GPU-hours", story.picture.metric)
    )


def _frontier(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    chart = frontier_chart(story, beliefs)
    return None if chart is None else _whole(chart)


def _heat(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    variants = heat_maps(story, beliefs)
    several = len(variants) > 1
    panels = [
        (f"{chart.title}, {variant.label}" if several else chart.title, chart)
        for variant in variants
        for chart in (variant.score, variant.best)
    ]
    return grid(panels, MAP_COLUMNS) if panels else None


def _timeline(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    charts = timelines(story, beliefs)
    if not charts:
        return None
    return grid([(chart.title, chart) for chart in charts], TIME_COLUMNS, below=BELOW_TIME, legends=True)


DRAWN: Final[dict[str, Draw]] = {
    "curves": _curves,
    "frontier": _frontier,
    "heat": _heat,
    "budget": lambda story, _: _whole(budget_chart(story)),
    "timeline": _timeline,
}


HEADING = 30  # pixels above a panel
GAP = 0.07  # of the width, between two columns


def grid(
    panels: Sequence[tuple[str, Chart]],
    columns: int,
    *,
    below: int = 30,
    titles: tuple[str, str] | None = None,
    legends: bool = False,
) -> dict[str, Any]:
    """Return a figure with a panel for each chart, row by row, each under its heading.

    `below` is how many pixels of a panel its ticks take; `titles` are those of x and y, for the outermost axes; with
    `legends` each panel has its own at its right.
    """
    across = min(columns, len(panels))
    rows = math.ceil(len(panels) / across)
    height = max(chart.height for _, chart in panels)
    inner = rows * (height + HEADING)
    layout: dict[str, Any] = {
        **panels[0][1].figure["layout"],
        "margin": MARGIN,
        "showlegend": legends,
        "shapes": [],
        "annotations": [],
        "height": inner + MARGIN["t"] + MARGIN["b"],
    }
    wide = (1 - GAP * (across - 1)) / across
    data: list[dict[str, Any]] = []
    for number, (heading, chart) in enumerate(panels):
        row, column = divmod(number, across)
        left = column * (wide + GAP)
        top = 1 - (row * (height + HEADING) + HEADING) / inner
        own = str(number + 1) if number else ""
        x, y = [left, min(1.0, left + wide)], [max(0.0, top - (height - below) / inner), top]
        data += [_placed(trace, own) for trace in chart.figure["data"]]
        axes = chart.figure["layout"]
        lowest, first = number + across >= len(panels), column == 0
        across_it = {**_named(titles and titles[0], lowest), "domain": x, "anchor": f"y{own}"}
        upwards = {**_named(titles and titles[1], first), "domain": y, "anchor": f"x{own}"}
        layout |= {f"xaxis{own}": axes["xaxis"] | across_it, f"yaxis{own}": axes["yaxis"] | upwards}
        if legends:
            layout[f"legend{own}"] = {"x": 1.01, "xanchor": "left", "y": top, "yanchor": "top", "font": {"size": 11}}
        layout["shapes"] += [_shape(each, own) for each in axes.get("shapes", ())]
        layout["annotations"].append(_title(heading, left, top))
    return {"data": data, "layout": layout}


def _placed(trace: dict[str, Any], own: str) -> dict[str, Any]:
    placed = {**trace, "xaxis": f"x{own}", "yaxis": f"y{own}"}
    if trace["type"] == "heatmap":  # its numbers stand in its cells
        return {**placed, "showscale": False}
    return {**placed, "legend": f"legend{own}"}


def _named(title: str | None, outermost: bool) -> dict[str, Any]:
    return {"title": {"text": title, "standoff": 8}} if title and outermost else {}


def _shape(shape: dict[str, Any], own: str) -> dict[str, Any]:
    x, y = shape["xref"], shape["yref"]
    return {**shape, "xref": f"x{own}{x[1:]}", "yref": f"y{own}{y[1:]}"}


def _title(heading: str, left: float, top: float) -> dict[str, Any]:
    return {
        "text": f"<b>{text(heading)}</b>",
        "x": left,
        "y": top,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }


_COLOUR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
_LISTS = frozenset({"data", "shapes", "annotations"})


@cache
def palette(dark: bool) -> Mapping[str, str]:
    """Return the theme's colours by name, as the style sheet of the report has them."""
    style = files("rlplan.web").joinpath("static", "theme.css").read_text(encoding="utf-8")
    return {name: night if dark else day for name, day, night in _COLOUR.findall(style)}


def colour(name: str, dark: bool) -> str:
    """Return the colour that a name such as '$accent' or '$accent/0.2' stands for."""
    token, _, opacity = name.removeprefix("$").partition("/")
    found = palette(dark)[token]
    if not opacity:
        return found
    red, green, blue = (int(found[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def coloured(value: Any, dark: bool, key: str = "") -> Any:
    """Fill in the colours of a figure; only under keys that hold colours, for a trial may be called '$accent'."""
    if isinstance(value, Mapping):
        return {name: coloured(each, dark, name) for name, each in value.items()}
    if key == "colorscale":
        return [[at, colour(name, dark)] for at, name in value]
    if key in _LISTS:
        return [coloured(each, dark) for each in value]
    if isinstance(value, str) and value.startswith("$") and key.endswith("color"):
        return colour(value, dark)
    if isinstance(value, list | tuple) and key.endswith("color"):
        return [coloured(each, dark, key) for each in value]
    return value


def _template(dark: bool) -> dict[str, Any]:
    """Return what all figures look like beside their data."""
    line, muted, ink, raised, quiet, surface = (
        colour(f"${name}", dark) for name in ("line", "muted", "ink", "raised", "quiet", "surface")
    )
    axis = {
        "gridcolor": line,
        "linecolor": line,
        "zerolinecolor": line,
        "tickcolor": line,
        "ticks": "outside",
        "ticklen": 4,
        "zeroline": False,
        "tickfont": {"color": muted, "size": 11},
        "title": {"font": {"color": muted, "size": 12}},
    }
    bar = {"tickfont": {"color": muted, "size": 11}, "title": {"font": {"color": muted, "size": 11}}}
    return {
        "layout": {
            "font": {"color": ink, "size": 12},
            "paper_bgcolor": surface,
            "plot_bgcolor": surface,
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"font": {"size": 11}, "bgcolor": "rgba(0,0,0,0)"},
            "hoverlabel": {
                "bgcolor": raised,
                "bordercolor": quiet,
                "font": {"color": ink, "size": 12},
                "align": "left",
            },
        },
        "data": {"heatmap": [{"colorbar": bar}]},
    }
