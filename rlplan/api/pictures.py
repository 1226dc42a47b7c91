"""Pictures of a sweep as plotly figures: the charts of its report."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from budgets.errors import NotFoundError, UnknownNameError
from rlplan.api.panels import grid
from rlplan.api.theme import coloured, template
from rlplan.charts.budget import budget_chart
from rlplan.charts.chart import Chart
from rlplan.charts.curves import curve_panels
from rlplan.charts.frontier import frontier_chart
from rlplan.charts.heat import heat_maps
from rlplan.charts.timeline import timelines
from rlplan.reading.story import Beliefs, Story

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Kind: TypeAlias = Literal["curves", "frontier", "heat", "budget", "timeline"]
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
    from plotly.graph_objects import Figure  # noqa: PLC0415 (takes a second to import)

    themed = coloured(drawn, dark)
    return Figure(data=themed["data"], layout={**themed["layout"], "template": template(dark)})


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


def _budget(story: Story, _: Beliefs) -> dict[str, Any]:
    return _whole(budget_chart(story))


def _timeline(story: Story, beliefs: Beliefs) -> dict[str, Any] | None:
    charts = timelines(story, beliefs)
    if not charts:
        return None
    return grid([(chart.title, chart) for chart in charts], TIME_COLUMNS, below=BELOW_TIME, legends=True)


DRAWN: Final[dict[str, Draw]] = {
    "curves": _curves,
    "frontier": _frontier,
    "heat": _heat,
    "budget": _budget,
    "timeline": _timeline,
}
