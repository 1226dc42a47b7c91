"""Fitted curves as one HTML file that needs nothing else: plotly, with its script inside."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.curves.curve import Curve
from rlplan.charts.fit_plot import BLUE, GREEN, GREY, ORANGE, Panel, columns

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BAND = "rgba(31,111,180,0.2)"
MARK = "#808080"  # of the cut and the window's end: visible on white and on black
CLEAR = "rgba(0,0,0,0)"
SINGLE_HEIGHT, SMALL_HEIGHT = 560, 330  # pixels a row
TOP, BOTTOM, BETWEEN = 56, 120, 74  # pixels for the titles of the first row, for the legend, and between rows
NARROWEST = 300  # pixels a panel; on a narrower screen the page is scrolled

# Plotly draws its own ink, so that the reader's choice of light or dark reaches it by a script alone.
PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ margin: 0; background: #ffffff; }}
main {{ min-width: {narrowest}px; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #14181d; }} }}
</style>
</head>
<body>
<main>{figure}</main>
<script>
const dark = matchMedia("(prefers-color-scheme: dark)");
function dress() {{
  const figure = document.getElementById("fits");
  const ink = dark.matches ? "#dde4ec" : "#2a3f5f", line = dark.matches ? "#333c47" : "#e6ebf1";
  const changed = {{"font.color": ink}};
  for (const axis of Object.keys(figure.layout).filter(name => /^[xy]axis/.test(name))) {{
    changed[axis + ".gridcolor"] = line;
    changed[axis + ".zerolinecolor"] = line;
    changed[axis + ".linecolor"] = line;
  }}
  Plotly.relayout(figure, changed);
}}
dark.addEventListener("change", dress);
dress();
</script>
</body>
</html>
"""


def write_html(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels in a grid into an HTML file."""
    from plotly.subplots import make_subplots  # noqa: PLC0415

    wide = columns(len(panels))
    high = math.ceil(len(panels) / wide)
    titles = [_plain(panel.title) for panel in panels]
    height = SINGLE_HEIGHT if len(panels) == 1 else SMALL_HEIGHT * high + TOP + BOTTOM
    gap = BETWEEN / (height - TOP - BOTTOM)
    figure = make_subplots(rows=high, cols=wide, subplot_titles=titles, vertical_spacing=gap)
    named: set[str] = set()
    for number, panel in enumerate(panels):
        _draw(figure, panel, {"row": number // wide + 1, "col": number % wide + 1}, named)
    legend = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"}
    margin = {"t": TOP, "b": BOTTOM, "l": 64, "r": 24}
    figure.update_layout(template="plotly_white", height=height, margin=margin, legend=legend)
    figure.update_layout(paper_bgcolor=CLEAR, plot_bgcolor=CLEAR)
    drawn = figure.to_html(
        include_plotlyjs=True,
        full_html=False,
        div_id="fits",
        config={"responsive": True, "displaylogo": False},
    )
    title = titles[0] if len(titles) == 1 else f"{len(titles)} learning curves"
    path.write_text(PAGE.format(title=title, figure=drawn, narrowest=wide * NARROWEST), encoding="utf-8")


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
            add(name, [at, at], panel.height, mode="lines", line={"color": MARK, "dash": dash, "width": 1})
    scale = {"type": "log" if panel.logarithmic else "linear", "exponentformat": "none", "separatethousands": True}
    figure.update_xaxes(title={"text": _plain(panel.x_name), "standoff": 6}, **scale, **cell)
    figure.update_yaxes(title_text=_plain(panel.y_name), **cell)


def _add_points(add: Any, points: Curve, leftmost: float, colour: str, name: str) -> None:
    trained = points.x > 0
    if trained.any():
        add(
            name,
            points.x[trained],
            points.y[trained],
            mode="markers",
            marker={"color": colour, "size": 5, "opacity": 0.75},
        )
    if not trained.all():
        marker = {"color": colour, "size": 10, "symbol": "triangle-left"}
        add("before training", [leftmost] * int((~trained).sum()), points.y[~trained], mode="markers", marker=marker)


def _plain(text: str) -> str:
    """Write a name as text: plotly takes some tags for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
