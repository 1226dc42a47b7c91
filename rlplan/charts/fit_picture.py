"""Fitted curves as a PNG, without a browser: matplotlib with its own canvas, so that no display is needed."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlplan.charts.fit_plot import BLUE, GREEN, GREY, ORANGE, Panel, columns
from rlplan.wording.numbers import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SINGLE, SMALL = (7.6, 4.4), (4.4, 3.1)  # inches a panel
DOTS_PER_INCH = 110
LEGEND = ("used", "before training", "not used", "median of the fit", "band", "prediction", "observed", "cut", "end")


def write_png(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels in a grid into a PNG."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    wide = columns(len(panels))
    high = math.ceil(len(panels) / wide)
    size = SINGLE if len(panels) == 1 else SMALL
    figure = Figure(figsize=(wide * size[0], high * size[1]), layout="constrained")
    grid = figure.subplots(high, wide, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number < len(panels):
            _draw(axes, panels[number], small=len(panels) > 1)
        else:
            axes.set_axis_off()
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    named = {label: handles[label] for label in sorted(handles, key=_place)}
    across = min(len(named), 3 if wide == 1 else 5)
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=across, frameon=False, fontsize=9)
    figure.savefig(path, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})


def _draw(axes: "Axes", panel: Panel, small: bool) -> None:
    band = panel.band
    _draw_points(axes, panel, 9 if small else 14)
    share = f"{panel.level * 100:g} % band"
    axes.fill_between(band.x, band.low, band.high, color=BLUE, alpha=0.16, linewidth=0, label=share)
    axes.plot(band.x, band.median, color=BLUE, linewidth=1.6, label="median of the fit")
    for at, dash, label in ((panel.cut, ":", "cut"), (panel.window, "--", "end of the window")):
        if at is not None:
            axes.axvline(at, color="#444444", linestyle=dash, linewidth=1, label=label)
    for each in panel.predictions:
        mean = np.array([each.mean])
        reach = np.array([[each.mean - each.low], [each.high - each.mean]])
        style: dict[str, Any] = {
            "color": ORANGE,
            "marker": "o",
            "markersize": 4.5,
            "capsize": 3.5,
            "linewidth": 1.5,
            "zorder": 4,
        }
        axes.errorbar([each.x], mean, yerr=reach, label="prediction", **style)
    for x, y in panel.observed:
        style = {"color": GREEN, "marker": "D", "markersize": 6, "markeredgecolor": "white", "zorder": 5}
        axes.plot([x], [y], linestyle="none", label="observed", **style)
    _dress(axes, panel, small)


def _draw_points(axes: "Axes", panel: Panel, size: float) -> None:
    for points, colour, label in ((panel.unused, GREY, "not used"), (panel.used, BLUE, "used")):
        trained = points.x > 0
        style: dict[str, Any] = {"color": colour, "linewidths": 0}
        if trained.any():
            axes.scatter(points.x[trained], points.y[trained], s=size, alpha=0.6, label=label, **style)
        if not trained.all():
            start = np.full(int((~trained).sum()), panel.leftmost)
            axes.scatter(start, points.y[~trained], s=2.5 * size, marker="<", label="before training", **style)


def _dress(axes: "Axes", panel: Panel, small: bool) -> None:
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

    if panel.logarithmic:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: count(x) if x >= 1_000 else f"{x:g}"))
    # Names are no formulas, whatever dollar signs stand in them.
    axes.set_title(panel.title, fontsize=9 if small else 11, parse_math=False)
    axes.set_xlabel(panel.x_name, fontsize=8 if small else 10, parse_math=False)
    axes.set_ylabel(panel.y_name, fontsize=8 if small else 10, parse_math=False)
    axes.tick_params(labelsize=8 if small else 9)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _place(label: str) -> int:
    """Return where a label stands in the legend, whichever panel it was first drawn in."""
    return next(place for place, part in enumerate(LEGEND) if label.startswith(part) or label.endswith(part))
