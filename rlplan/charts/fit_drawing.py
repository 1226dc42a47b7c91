"""Draws panels into an HTML page that needs nothing else: plotly is inside."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.curves.curve import Curve
from rlplan.actions.fitting import Fits
from rlplan.actions.law_fitting import LawFits
from rlplan.charts.chart import text
from rlplan.charts.fit_panels import MOST_PANELS, Line, Panel, columns, curve_panels, law_panels
from rlplan.wording.file_writing import write_file

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BLUE, ORANGE, GREEN, GREY = "#1f6fb4", "#d1600a", "#2a8a3e", "#9a9a9a"
SERIES = (BLUE, ORANGE, GREEN, "#8a4fbf", "#b3412e", "#3c8f96", "#8c7a1f", "#c2559d")
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


def write_fits(fits: Fits, path: Path) -> str:
    """Draw the first curves on a page, and return a line that says so."""
    return _write(curve_panels(fits), len(fits.curves), "curves", path)


def write_laws(fits: LawFits, path: Path) -> str:
    """Draw the first fits of a law, as `write_fits` does curves."""
    return _write(law_panels(fits), len(fits.fits), "fits", path)


def _write(panels: Sequence[Panel], count: int, what: str, path: Path) -> str:
    write_file(path, page_of(panels), force=True)
    missing = count - len(panels)
    return f"drew {path}" + (f": the first {MOST_PANELS} {what}, without {missing} more" if missing else "")


def page_of(panels: Sequence[Panel]) -> bytes:
    """Draw panels in a grid on a page."""
    from plotly.subplots import make_subplots

    wide = columns(len(panels))
    high = math.ceil(len(panels) / wide)
    titles = [text(panel.title) for panel in panels]
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
    return PAGE.format(title=title, figure=drawn, narrowest=wide * NARROWEST).encode()


def _draw(figure: "Figure", panel: Panel, cell: dict[str, int], named: set[str]) -> None:
    def add(name: str, x: Any, y: Any, **style: Any) -> None:
        """Add a trace; all of a name go together, and the legend has them once."""
        from plotly.graph_objects import Scatter

        legend = {"name": name, "legendgroup": name, "showlegend": name not in named}
        named.add(name)
        figure.add_trace(Scatter(x=x, y=y, **legend, **style), **cell)

    for line, colour in zip(panel.lines, SERIES * len(panel.lines), strict=False):
        _add_line(add, figure, panel, line, colour)
    for at, dash, name in ((panel.cut, "dot", "cut"), (panel.window, "dash", "end of the window")):
        if at is not None:  # a trace and no shape: shapes and their names go astray on log axes
            add(name, [at, at], panel.height, mode="lines", line={"color": MARK, "dash": dash, "width": 1})
    scales = [{"type": "log" if log else "linear"} for log in (panel.logarithmic, panel.logarithmic_y)]
    flops = max((float(line.x.max(initial=0.0)) for line in panel.lines), default=0.0) >= 1e12
    numbers = {"exponentformat": "power" if flops else "none", "separatethousands": True}
    figure.update_xaxes(title={"text": text(panel.x_name), "standoff": 6}, **scales[0], **numbers, **cell)
    figure.update_yaxes(title_text=text(panel.y_name), **scales[1], **(numbers if panel.logarithmic_y else {}), **cell)


def _add_line(add: Any, figure: "Figure", panel: Panel, line: Line, colour: str) -> None:
    several, band, edge = len(panel.lines) > 1, line.band, {"width": 0}
    name = text(line.name)
    if band is not None:
        share = f"{panel.level * 100:g} % band"
        fill = {"fill": "tonexty", "fillcolor": _faint(colour)}
        add("band", band.x, band.low, line=edge, hoverinfo="skip", mode="lines")
        figure.data[-1].showlegend = False
        add(share, band.x, band.high, line=edge, mode="lines", **fill)
    for points, own, said in ((line.unused, GREY, "not used"), (line.used, colour, "used")):
        _add_points(add, points, panel.leftmost, own, name if several else said)
    if band is not None:
        said = name if several else "median of the fit"
        add(said, band.x, band.median, line={"color": colour, "width": 2}, mode="lines")
    if line.predictions:
        x, middle, low, high = (np.array(values) for values in zip(*line.predictions, strict=True))
        marker = {"color": colour if several else ORANGE, "size": 8}
        error = {"array": high - middle, "arrayminus": middle - low}
        add("prediction", x, middle, mode="markers", marker=marker, error_y=error)
    if line.observed:
        x, y = (np.array(values) for values in zip(*line.observed, strict=True))
        add("observed", x, y, mode="markers", marker={"color": GREEN, "size": 10, "symbol": "diamond"})


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


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
