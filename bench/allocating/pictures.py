"""The pictures of docs/allocbench.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from runner.simulation.frontier import FRONTIERS

from .early import Early
from .surface import by_cell, common_end, optimum, score_at, scores_at
from .table import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 100
COLOURS = 64  # of the palette: flat areas need few
BLUE, ORANGE, GREY = "#1f6fb4", "#d9722a", "#8a8a8a"
PARTS = (1 / 8, 1 / 4, 1 / 2, 1.0)
GRID = 40  # values of compute along a drawn curve
THOUSANDTHS = "thousandths of a GPU-hour (one CPU core)"


def draw(tables: Mapping[str, Sequence[Run]], predicted: Mapping[str, Sequence[Early]], folder: Path) -> None:
    """Draw all pictures of the main tables."""
    _draw_surfaces(tables, folder / "allocbench-surface.png")
    _draw_optimum(tables, folder / "allocbench-optimum.png")
    _draw_curves(tables, folder / "allocbench-curves.png")
    _draw_early(predicted, folder / "allocbench-early.png")


def draw_recipes(runs: Sequence[Run], path: Path) -> None:
    """Draw each recipe's curves, a panel for each cell."""
    cells = list(by_cell(runs))
    wide = (len(cells) + 1) // 2
    figure, axes = _figure(2, wide, (2.3, 2.0))
    recipes = sorted({run.recipe for run in runs})
    for panel, (n, B) in zip(axes.flat, cells, strict=False):
        for number, recipe in enumerate(recipes):
            members = [run for run in runs if run.recipe == recipe and run.cell == (n, B)]
            if members:
                _band(panel, members, f"C{number}", recipe)
        panel.set_title(f"n = {n}, B = {B}", fontsize=8)
        panel.set_ylim(0, 1)
    for panel in axes.flat[len(cells) :]:
        panel.set_axis_off()
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(recipes), frameon=False, fontsize=8)
    figure.supxlabel(THOUSANDTHS, fontsize=8)
    _save(figure, path)


def _draw_surfaces(tables: Mapping[str, Sequence[Run]], path: Path) -> None:
    figure, axes = _figure(len(tables), len(PARTS), (2.75, 2.6))
    for row, (task, runs) in zip(axes, tables.items(), strict=True):
        for panel, part in zip(row, PARTS, strict=True):
            at = part * common_end(runs)
            scores = {cell: float(each.mean()) for cell, each in scores_at(runs, at).items()}
            _heat(panel, scores)
            panel.set_title(f"{task}, {1000 * at:.2g}·10⁻³ h", fontsize=9)
        row[0].set_ylabel("B prompts per batch", fontsize=8)
    for panel in axes[-1]:
        panel.set_xlabel("n rollouts per prompt", fontsize=8)
    _save(figure, path)


def _heat(panel: "Axes", scores: Mapping[tuple[int, int], float]) -> None:
    ns, Bs = (sorted({cell[axis] for cell in scores}) for axis in (0, 1))
    values = np.full((len(Bs), len(ns)), np.nan)
    for (n, B), score in scores.items():
        values[Bs.index(B), ns.index(n)] = score
    low, high = np.nanmin(values), np.nanmax(values)
    panel.imshow(values, origin="lower", cmap="viridis", vmin=low, vmax=high, aspect="auto")
    best = max(scores, key=lambda cell: scores[cell])
    for (n, B), score in scores.items():
        place = ns.index(n), Bs.index(B)
        dark = score < (low + high) / 2
        weight = "bold" if (n, B) == best else "normal"
        text = f"{100 * score:.0f}"
        panel.text(*place, text, ha="center", va="center", fontsize=7, color="w" if dark else "k", weight=weight)
        if (n, B) == best:
            panel.plot(
                *place, "o", markersize=17, markerfacecolor="none", markeredgecolor="#d11f1f", markeredgewidth=1.6
            )
    panel.set_xticks(range(len(ns)), [str(n) for n in ns], fontsize=7)
    panel.set_yticks(range(len(Bs)), [str(B) for B in Bs], fontsize=7)


def _draw_optimum(tables: Mapping[str, Sequence[Run]], path: Path) -> None:
    figure, axes = _figure(2, len(tables), (4.4, 2.7))
    for column, (task, runs) in zip(axes.T, tables.items(), strict=True):
        law = FRONTIERS["easy" if task.endswith("easy") else "hard"].optimal_group
        for panel, x, label in zip(column, ("rollouts", "gpu_hours"), ("rollouts", THOUSANDTHS), strict=True):
            _draw_best_group(panel, runs, x)
            panel.set_xlabel(label, fontsize=8)
            if x == "rollouts":
                first, last = panel.get_xlim()
                compute = np.geomspace(first, last, GRID)
                published = [law(float(at)) for at in compute]
                panel.plot(compute, published, "--", color=GREY, label="IsoCompute's law", scalex=False)
                panel.set_title(task, fontsize=9)
    for panel in axes[:, 0]:
        panel.set_ylabel("n* rollouts per prompt", fontsize=8)
    axes[0, 0].legend(fontsize=7, frameon=False, loc="upper left")
    _save(figure, path)


def _draw_best_group(panel: "Axes", runs: Sequence[Run], x: str) -> None:
    end = common_end(runs, x)
    found = [optimum(runs, float(at), x) for at in np.geomspace(end / 32, end, GRID)]
    compute = [each.compute * (1000 if x == "gpu_hours" else 1) for each in found]
    low, high = [each.low for each in found], [each.high for each in found]
    panel.fill_between(compute, low, high, color=BLUE, alpha=0.18, linewidth=0, label="best of the surface, 90 %")
    panel.step(compute, [each.surface_cell[0] for each in found], color=BLUE, where="mid", label="best of the surface")
    panel.plot(compute, [each.cell[0] for each in found], ".", color=ORANGE, label="best cell")
    _log_compute(panel)
    panel.set_yscale("log", base=2)
    panel.set_ylim(1.7, 150)
    panel.set_yticks([2, 4, 8, 16, 32, 64, 128], ["2", "4", "8", "16", "32", "64", "128"])
    panel.tick_params(labelsize=7)


def _draw_curves(tables: Mapping[str, Sequence[Run]], path: Path) -> None:
    figure, axes = _figure(len(tables), 3, (3.5, 2.7))
    slices = (
        ("n at B = 8", [(n, 8) for n in (4, 16, 64, 128)]),
        ("B at n = 8", [(8, B) for B in (4, 16, 64)]),
        ("n·B = 256", [(4, 64), (16, 16), (64, 4), (128, 2)]),
    )
    for row, (task, runs) in zip(axes, tables.items(), strict=True):
        cells = by_cell(runs)
        for panel, (name, chosen) in zip(row, slices, strict=True):
            for number, cell in enumerate(cell for cell in chosen if cell in cells):
                _band(panel, cells[cell], f"C{number}", f"{cell[0]} × {cell[1]}")
            panel.set_title(f"{task}: {name}", fontsize=9)
            panel.legend(title="n × B", title_fontsize=7, fontsize=7, frameon=False, loc="lower right")
    figure.supxlabel(THOUSANDTHS, fontsize=8)
    _save(figure, path)


def _band(panel: "Axes", members: Sequence[Run], colour: str, label: str) -> None:
    """Draw the mean over the seeds that reach so far and their range, and the points under it."""
    end = max(float(run.gpu_hours[-1]) for run in members)
    start = max(float(run.gpu_hours[1]) for run in members)
    compute = np.geomspace(start, end, GRID)
    scores = np.array([[score_at(run, float(at)) for at in compute] for run in members])
    panel.plot(1000 * compute, np.nanmean(scores, axis=0), color=colour, linewidth=1.5, label=label)
    if len(members) > 1:
        low, high = np.nanmin(scores, axis=0), np.nanmax(scores, axis=0)
        panel.fill_between(1000 * compute, low, high, color=colour, alpha=0.18, linewidth=0)
    for run in members:
        panel.scatter(1000 * run.gpu_hours[1:], run.score[1:], s=5, color=colour, alpha=0.55, linewidths=0)
    _log_compute(panel)
    panel.tick_params(labelsize=7)


def _draw_early(predicted: Mapping[str, Sequence[Early]], path: Path) -> None:
    figure, axes = _figure(len(predicted), len(next(iter(predicted.values()))), (3.1, 2.8))
    for row, (task, parts) in zip(axes, predicted.items(), strict=True):
        for panel, each in zip(row, parts, strict=True):
            scores = each.scores["rlplan"]
            reach = np.abs(np.stack([scores.point - scores.low, scores.high - scores.point]))
            outside = (scores.truth < scores.low) | (scores.truth > scores.high)
            for mask, colour, label in ((~outside, BLUE, "within"), (outside, ORANGE, "outside of 90 %")):
                if mask.any():
                    panel.errorbar(
                        scores.truth[mask], scores.point[mask], yerr=reach[:, mask], fmt="o", markersize=2.5,
                        linewidth=0.5, alpha=0.6, color=colour, label=label,
                    )  # fmt: skip
            panel.axline((0.9, 0.9), slope=1, color="k", linewidth=0.8)
            panel.set_xlim(scores.truth.min() - 0.02, scores.truth.max() + 0.02)
            panel.set_title(f"{task}, from the first {each.part:.0%}", fontsize=9)
            panel.tick_params(labelsize=7)
        row[0].set_ylabel("predicted end", fontsize=8)
        row[0].legend(fontsize=7, frameon=False, loc="lower right")
    figure.supxlabel("end of the run (mean of its last tenth)", fontsize=8)
    _save(figure, path)


def _log_compute(panel: "Axes") -> None:
    """Make x logarithmic, with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def _figure(high: int, wide: int, size: tuple[float, float]) -> "tuple[Figure, np.ndarray]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide * size[0], high * size[1]), layout="constrained")
    return figure, figure.subplots(high, wide, squeeze=False)


def _save(figure: "Figure", path: Path) -> None:
    """Write a PNG with a small palette."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
