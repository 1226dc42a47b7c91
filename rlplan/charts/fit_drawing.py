"""Draws panels into a file: an HTML page that needs nothing else (plotly inside), or a PNG (matplotlib, no browser)."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve
from rlplan.actions.fitting import Fits
from rlplan.actions.law_fitting import LawFits
from rlplan.charts.chart import text
from rlplan.charts.fit_panels import MOST_PANELS, Line, Panel, columns, curve_panels, law_panels
from rlplan.wording.file_writing import write_file
from rlplan.wording.numbers import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from plotly.graph_objects import Figure

BLUE, ORANGE, GREEN, GREY = "#1f6fb4", "#d1600a", "#2a8a3e", "#9a9a9a"
SERIES = (BLUE, ORANGE, GREEN, "#8a4fbf", "#b3412e", "#3c8f96", "#8c7a1f", "#c2559d")
MARK = "#808080"  # of the cut and the window's end: visible on white and on black
CLEAR = "rgba(0,0,0,0)"
SINGLE_HEIGHT, SMALL_HEIGHT = 560, 330  # pixels a row
TOP, BOTTOM, BETWEEN = 56, 120, 74  # pixels for the titles of the first row, for the legend, and between rows
SINGLE, SMALL = (7.6, 4.4), (4.4, 3.1)  # inches a panel
DOTS_PER_INCH = 110
LEGEND = ("used", "before training", "not used", "median of the fit", "band", "prediction", "observed", "cut", "end")
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
    """Draw the first curves into an HTML or PNG file, and return a line that says so."""
    return _write(curve_panels(fits), len(fits.curves), "curves", path)


def write_laws(fits: LawFits, path: Path) -> str:
    """Draw the first fits of a law, as `write_fits` does curves."""
    return _write(law_panels(fits), len(fits.fits), "fits", path)


def _write(panels: Sequence[Panel], count: int, what: str, path: Path) -> str:
    drawn = _png(panels, path) if path.suffix.casefold() == ".png" else _html(panels)
    write_file(path, drawn, force=True)
    missing = count - len(panels)
    return f"drew {path}" + (f": the first {MOST_PANELS} {what}, without {missing} more" if missing else "")


def _html(panels: Sequence[Panel]) -> bytes:
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


def _png(panels: Sequence[Panel], path: Path) -> bytes:
    """Draw panels in a grid as a PNG, which a path has asked for."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            f"--plot {path}: a PNG needs matplotlib, which is not installed; run pip install 'rlplan[png]', or name a "
            ".html file"
        ) from error

    wide = columns(len(panels))
    high = math.ceil(len(panels) / wide)
    size = SINGLE if len(panels) == 1 else SMALL
    figure = Figure(figsize=(wide * size[0], high * size[1]), layout="constrained")
    grid = figure.subplots(high, wide, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number < len(panels):
            _draw_axes(axes, panels[number], small=len(panels) > 1)
        else:
            axes.set_axis_off()
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    named = {label: handles[label] for label in sorted(handles, key=_place)}
    across = min(len(named), 3 if wide == 1 else 5)
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=across, frameon=False, fontsize=9)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return drawn.getvalue()


def _draw_axes(axes: "Axes", panel: Panel, small: bool) -> None:
    several = len(panel.lines) > 1
    for line, colour in zip(panel.lines, SERIES * len(panel.lines), strict=False):
        _draw_points(axes, panel, line, colour, 9 if small else 14)
        if line.band is not None:
            share, said = f"{panel.level * 100:g} % band", line.name if several else "median of the fit"
            axes.fill_between(
                line.band.x, line.band.low, line.band.high, color=colour, alpha=0.16, linewidth=0, label=share
            )
            axes.plot(line.band.x, line.band.median, color=colour, linewidth=1.6, label=said)
        for x, middle, low, high in line.predictions:
            reach = np.array([[max(0.0, middle - low)], [max(0.0, high - middle)]])
            style: dict[str, Any] = {"marker": "o", "markersize": 4.5, "capsize": 3.5, "linewidth": 1.5, "zorder": 4}
            own = colour if several else ORANGE
            axes.errorbar([x], np.array([middle]), yerr=reach, label="prediction", color=own, **style)
        for x, y in line.observed:
            style = {"color": GREEN, "marker": "D", "markersize": 6, "markeredgecolor": "white", "zorder": 5}
            axes.plot([x], [y], linestyle="none", label="observed", **style)
    for at, dash, label in ((panel.cut, ":", "cut"), (panel.window, "--", "end of the window")):
        if at is not None:
            axes.axvline(at, color="#444444", linestyle=dash, linewidth=1, label=label)
    _dress(axes, panel, small)


def _draw_points(axes: "Axes", panel: Panel, line: Line, colour: str, size: float) -> None:
    several = len(panel.lines) > 1
    for points, own, label in ((line.unused, GREY, "not used"), (line.used, colour, "used")):
        trained = points.x > 0
        style: dict[str, Any] = {"color": own, "linewidths": 0}
        if trained.any():
            said = "" if several else label
            axes.scatter(points.x[trained], points.y[trained], s=size, alpha=0.6, label=said, **style)
        if not trained.all():
            start = np.full(int((~trained).sum()), panel.leftmost)
            axes.scatter(start, points.y[~trained], s=2.5 * size, marker="<", label="before training", **style)


def _dress(axes: "Axes", panel: Panel, small: bool) -> None:
    from matplotlib.ticker import FuncFormatter

    if panel.logarithmic:
        axes.set_xscale("log")
    if panel.logarithmic_y:
        axes.set_yscale("log")
        for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            set_formatter(FuncFormatter(_tick))
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    # Names are no formulas, whatever dollar signs stand in them.
    axes.set_title(panel.title, fontsize=9 if small else 11, parse_math=False)
    axes.set_xlabel(panel.x_name, fontsize=8 if small else 10, parse_math=False)
    axes.set_ylabel(panel.y_name, fontsize=8 if small else 10, parse_math=False)
    axes.tick_params(labelsize=8 if small else 9)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _tick(value: float, _: object) -> str:
    if value >= 1e15:  # FLOPs
        return f"{value:.0e}"
    return count(value) if value >= 1_000 else f"{value:g}"


def _place(label: str) -> int:
    """Return where a label stands in the legend, whichever panel it was first drawn in."""
    known = (place for place, part in enumerate(LEGEND) if label.startswith(part) or label.endswith(part))
    return next(known, -1)
