"""Fitted curves as one HTML file that needs nothing else: plotly, with its script inside."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.curves.curve import Curve
from rlplan.fit_plot import BLUE, GREEN, GREY, ORANGE, Panel, columns

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BAND = "rgba(31,111,180,0.16)"
SINGLE_HEIGHT, SMALL_HEIGHT = 560, 330  # pixels a row


def write_html(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels in a grid into an HTML file."""
    from plotly.subplots import make_subplots  # noqa: PLC0415

    wide = columns(len(panels))
    high = math.ceil(len(panels) / wide)
    titles = [_plain(panel.title) for panel in panels]
    figure = make_subplots(rows=high, cols=wide, subplot_titles=titles, vertical_spacing=0.35 / (high + 1))
    named: set[str] = set()
    for number, panel in enumerate(panels):
        _draw(figure, panel, {"row": number // wide + 1, "col": number % wide + 1}, named)
    height = SINGLE_HEIGHT if len(panels) == 1 else SMALL_HEIGHT * high + 90
    legend = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"}
    figure.update_layout(template="plotly_white", height=height, margin={"b": 120}, legend=legend)
    path.write_text(figure.to_html(include_plotlyjs=True, full_html=True), encoding="utf-8")


def _draw(figure: "Figure", panel: Panel, cell: dict[str, int], named: set[str]) -> None:
    def add(name: str, x: Any, y: Any, **style: Any) -> None:
        """Add a trace; all of a name go together, and the legend has them once."""
        from plotly.graph_objects import Scatter  # noqa: PLC0415

        legend = {"name": name, "legendgroup": name, "showlegend": name not in named}
        named.add(name)
        figure.add_trace(Scatter(x=x, y=y, **legend, **style), **cell)

    band, edge = panel.band, {"width": 0}
    add("band", band.x, band.low, line=edge, hoverinfo="skip", mode="lines")
    figure.data[-1].showlegend = False
    add(f"{panel.level * 100:g} % band", band.x, band.high, line=edge, fill="tonexty", fillcolor=BAND, mode="lines")
    for points, colour, name in ((panel.unused, GREY, "not used"), (panel.used, BLUE, "used")):
        _add_points(add, points, panel.leftmost, colour, name)
    add("median of the fit", band.x, band.median, line={"color": BLUE, "width": 2}, mode="lines")
    if panel.predictions:
        add(
            "prediction",
            [each.x for each in panel.predictions],
            [each.mean for each in panel.predictions],
            mode="markers",
            marker={"color": ORANGE, "size": 8},
            error_y={
                "array": [each.high - each.mean for each in panel.predictions],
                "arrayminus": [each.mean - each.low for each in panel.predictions],
            },
        )
    if panel.observed:
        x, y = zip(*panel.observed, strict=True)
        add("observed", x, y, mode="markers", marker={"color": GREEN, "size": 10, "symbol": "diamond"})
    for at, dash, name in ((panel.cut, "dot", "cut"), (panel.window, "dash", "end of the window")):
        if at is not None:  # a trace and no shape: shapes and their names go astray on log axes
            add(name, [at, at], panel.height, mode="lines", line={"color": "#444", "dash": dash, "width": 1})
    figure.update_xaxes(title_text=_plain(panel.x_name), type="log" if panel.logarithmic else "linear", **cell)
    figure.update_yaxes(title_text=_plain(panel.y_name), **cell)


def _add_points(add: Any, points: Curve, leftmost: float, colour: str, name: str) -> None:
    trained = points.x > 0
    if trained.any():
        add(
            name,
            points.x[trained],
            points.y[trained],
            mode="markers",
            marker={"color": colour, "size": 5, "opacity": 0.6},
        )
    if not trained.all():
        marker = {"color": colour, "size": 10, "symbol": "triangle-left"}
        add("before training", [leftmost] * int((~trained).sum()), points.y[~trained], mode="markers", marker=marker)


def _plain(text: str) -> str:
    """Write a name as text: plotly takes some tags for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
