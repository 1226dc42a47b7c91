"""The charts of a sweep as plotly figures, for a notebook: in one panel or several, in the theme's colours."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from budgets.errors import NotFoundError, UnknownNameError
from rlplan.charts.budget import budget_chart, timelines
from rlplan.charts.chart import TEMPLATE, Chart, text
from rlplan.charts.curves import curve_panels
from rlplan.charts.frontier import frontier_chart
from rlplan.charts.heat import heat_maps
from rlplan.reading.story import Beliefs, Story

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PictureKind: TypeAlias = Literal["curves", "frontier", "heat", "budget", "timeline"]
Draw: TypeAlias = Callable[[Story, Beliefs], dict[str, Any] | None]

CURVE_COLUMNS, MAP_COLUMNS, TIME_COLUMNS = 3, 2, 1
BETWEEN, BELOW_TIME = 60, 110  # pixels between two rows: the ticks of one, and the heading of the other
MARGIN = {"l": 76, "r": 16, "t": 40, "b": 70}
HEADING = 30  # above a panel
GAP = 0.07  # of the width, between two columns


def figure(story: Story, beliefs: Beliefs, kind: str, *, dark: bool) -> "Figure":
    """Return the picture of that name; UnknownNameError for another, NotFoundError when there is nothing to draw."""
    if kind not in DRAWN:
        raise UnknownNameError("picture", str(kind), DRAWN)
    drawn = DRAWN[kind](story, beliefs)
    if drawn is None:
        raise NotFoundError(f"{story.picture.sweep} has nothing yet that the {kind} could be drawn from: wait for it")
    from plotly.graph_objects import Figure

    themed = coloured(drawn, dark)
    return Figure(data=themed["data"], layout={**themed["layout"], "template": coloured(TEMPLATE, dark)})


def _whole(chart: Chart) -> dict[str, Any]:
    return {**chart.figure, "layout": {**chart.figure["layout"], "height": chart.height}}


def _curves(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    charts = curve_panels(story, beliefs).charts
    panels = [(group.label, chart) for group, chart in charts]
    return _grid(panels, CURVE_COLUMNS, titles=("GPU-hours", story.picture.metric)) if panels else None


def _frontier(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    chart = frontier_chart(story, beliefs)
    return None if chart is None else _whole(chart)


def _heat(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    variants = heat_maps(story, beliefs)
    panels = [
        (f"{chart.title}, {variant.label}" if len(variants) > 1 else chart.title, chart)
        for variant in variants
        for chart in (variant.score, variant.best)
    ]
    return _grid(panels, MAP_COLUMNS) if panels else None


def _timeline(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    panels = [(chart.title, chart) for chart in timelines(story, beliefs)]
    return _grid(panels, TIME_COLUMNS, between=BELOW_TIME, legends=True) if panels else None


DRAWN: Final[dict[str, Draw]] = {
    "curves": _curves,
    "frontier": _frontier,
    "heat": _heat,
    "budget": lambda story, _: _whole(budget_chart(story)),
    "timeline": _timeline,
}


def _grid(
    panels: Sequence[tuple[str, Chart]],
    columns: int,
    *,
    titles: tuple[str, str] = ("", ""),
    between: int = BETWEEN,
    legends: bool = False,
) -> dict[str, Any]:
    """Return a figure with a panel for each chart, row by row under its heading; `titles` are those of all x and y."""
    from plotly.subplots import make_subplots

    across = min(columns, len(panels))
    rows = -(-len(panels) // across)
    height = rows * (max(chart.height for _, chart in panels) + HEADING)
    layout = make_subplots(
        rows,
        across,
        subplot_titles=[f"<b>{text(heading)}</b>" for heading, _ in panels],
        x_title=titles[0],
        y_title=titles[1],
        horizontal_spacing=GAP,
        vertical_spacing=between / height,
    ).to_dict()["layout"]
    del layout["template"]  # plotly's own
    layout |= {"margin": MARGIN, "height": height + MARGIN["t"] + MARGIN["b"], "shapes": []}
    layout |= {"showlegend": legends, "legend": {"groupclick": "toggleitem"}}
    data: list[dict[str, Any]] = []
    for number, (heading, chart) in enumerate(panels):
        own, drawn = str(number + 1) if number else "", chart.figure["layout"]
        placed = {"xaxis": f"x{own}", "yaxis": f"y{own}"}
        group = {"legendgroup": heading, "legendgrouptitle": {"text": text(heading)}} if legends else {}
        scale = {"showscale": False}  # the numbers of a map stand in its cells
        data += [trace | placed | (scale if trace["type"] == "heatmap" else group) for trace in chart.figure["data"]]
        layout |= {f"{name}{own}": drawn[name] | layout[f"{name}{own}"] for name in placed}
        own_axes = {"xref": f"x{own}", "yref": f"y{own} domain"}
        layout["shapes"] += [shape | own_axes for shape in drawn.get("shapes", ())]
    return {"data": data, "layout": {**panels[0][1].figure["layout"], **layout}}


_COLOUR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
_LISTS = frozenset({"data", "shapes", "annotations", "heatmap"})


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
