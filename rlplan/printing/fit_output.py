"""Prints fitted curves: as a table for a person, as JSON or CSV for a program; and has them drawn."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.curves.fitting import Interval, Prediction
from planner.curves.verdicts import MOST_OF_THE_SCALE
from rlplan.actions.fit_data import csv_rows, fits_data
from rlplan.actions.fitting import Fits, FittedCurve
from rlplan.exits import ExitCode
from rlplan.wording.csv_writing import write_csv
from rlplan.wording.formats import Format
from rlplan.wording.numbers import count, hours
from rlplan.wording.terminal import tell

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 140  # columns from which every prediction, the noise and the evidence stand in the table itself
EXPLAINED = 5  # curves up to which the evidence is written out
NAMED = 3  # curves that are named beside a note they share


def print_fits(fits: Fits, format: Format, plot: Path | None) -> int:
    """Print what was fitted, draw it if asked to, report what failed, and return the exit code."""
    if fits.curves:
        if format is Format.JSON:
            json.dump(fits_data(fits), sys.stdout, indent=2, allow_nan=False)
            sys.stdout.write("\n")
        elif format is Format.CSV:
            rows = csv_rows(fits)
            write_csv(sys.stdout, list(rows[0]), rows)
        else:
            _print_table(fits)
        if plot is not None:
            from rlplan.charts.fit_plot import write_plot  # noqa: PLC0415

            tell(write_plot(fits, plot))
    for failure in fits.failures:
        tell(f"rlplan: {failure}")
    return ExitCode.BAD_INPUT if fits.failures else ExitCode.DONE


def _print_table(fits: Fits) -> None:
    from rlplan.wording.harmless_console import HarmlessConsole  # noqa: PLC0415

    console = HarmlessConsole(highlight=False, markup=False)  # a curve may be called 'run[1]'
    with console.capture() as captured:
        _write_table(console, fits)
    # Tables and wrapped lines are padded to the full width, which is a nuisance in a file or a diff.
    sys.stdout.write("".join(f"{line.rstrip(' ')}\n" for line in captured.get().splitlines()))


def _write_table(console: "Console", fits: Fits) -> None:
    from rich.padding import Padding  # noqa: PLC0415

    wide = console.width >= WIDE
    console.print(_title(fits), style="bold")
    console.print(_legend(fits), style="dim")
    console.print()
    console.print(_table(fits, wide))
    for heading, lines in (("Why", [] if wide else _reasons(fits)), ("Mind", _notes(fits))):
        if lines:
            console.print(f"\n{heading}", style="bold")
            for line in lines:
                console.print(Padding(line, (0, 0, 0, 2), expand=False))


def _title(fits: Fits) -> str:
    files = len({curve.file for curve in fits.curves})
    if len(fits.curves) > 1:
        return f"{len(fits.curves)} curves of {files} file{'s' if files > 1 else ''}: {_axes(fits)}"
    return f"{fits.curves[0].fit.curve}: {_axes(fits)}"


def _axes(fits: Fits) -> str:
    names = {(curve.whole.y_name, curve.whole.x_name) for curve in fits.curves}
    return "{} against {}".format(*names.pop()) if len(names) == 1 else "scores against compute"


def _legend(fits: Fits) -> str:
    relative = any(target.multiple is not None for target in fits.targets) and len(fits.curves) > 1
    return (
        f"Intervals hold {fits.level * 100:g} %. Points: used / in the file. Now: the mean score at the last of them. "
        "A: where the curve ends if it is a sigmoid." + (" n×: at n times the last x used." if relative else "")
    )


def _table(fits: Fits, wide: bool) -> object:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("curve", overflow="fold")
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    shown = range(len(fits.targets)) if wide else [len(fits.targets) - 1]
    observed = [any(curve.observed[number] is not None for curve in fits.curves) for number in range(len(fits.targets))]
    with_now = wide or not any(observed[number] for number in shown)
    headings = ["now"] if with_now else []
    for number in shown:
        headings += [f"at {_place(fits, number)}", *(["observed"] if observed[number] else [])]
    for heading in [*headings, "A", *(["noise"] if wide else [])]:
        table.add_column(heading, justify="right", no_wrap=True)
    if wide:
        table.add_column("evidence")
    for curve in fits.curves:
        cells = [score(curve.now.mean)] if with_now else []
        for number in shown:
            came = curve.observed[number]
            cells.append(_interval(curve.fit.predictions[number]))
            cells += [score(came) if came is not None else "–"] if observed[number] else []
        tail = [f"{curve.fit.noise_sd:.2g}", curve.fit.evidence] if wide else []
        used = f"{_points(curve.fit.used_points)}/{_points(curve.whole.x.size)}"
        verdict = curve.fit.verdict.value.replace("-", " " if wide else "\n")
        table.add_row(curve.fit.curve, used, verdict, *cells, _asymptote(curve), *tail)
    return table


def _place(fits: Fits, number: int) -> str:
    """Name the x of a prediction where it is the same for all curves, else what was asked for."""
    places = {curve.fit.predictions[number].x for curve in fits.curves}
    return compute(places.pop()) if len(places) == 1 else fits.targets[number].label


def _points(number: int) -> str:
    return f"{number:,}" if number < 10_000 else count(number)


def _asymptote(curve: FittedCurve) -> str:
    interval = curve.fit.parameters["A"]
    # A scale without bounds has no span of its own; twice what was seen so far stands in for it.
    span = 1.0 if curve.used.bounded else 2 * float(np.ptp(curve.used.y))
    return "not yet known" if interval.high - interval.low > MOST_OF_THE_SCALE * span else _interval(interval)


def _interval(value: Interval | Prediction) -> str:
    centre = value.mean if isinstance(value, Prediction) else value.median
    return f"{score(centre)} ({score(value.low)}–{score(value.high)})"


def _reasons(fits: Fits) -> list[str]:
    """Give the evidence for each verdict, and the predictions for which a narrow table has no column."""
    if len(fits.curves) > EXPLAINED:
        return []
    lines = []
    for curve in fits.curves:
        others = [f"at {compute(each.x)}: {_interval(each)}" for each in curve.fit.predictions[:-1]]
        subject = f"{curve.fit.curve}: " if len(fits.curves) > 1 else ""
        lines += [subject + "; ".join([curve.fit.evidence, *others])]
    return lines


def _notes(fits: Fits) -> list[str]:
    """Gather the notes, each with the curves it holds for."""
    curves: dict[str, list[str]] = {}
    for curve in fits.curves:
        for note in curve.fit.notes:
            curves.setdefault(note, []).append(curve.fit.curve)
    lines = []
    for note, names in curves.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        whose = "" if len(names) == len(fits.curves) else f": {', '.join(names[:NAMED])}{more}"
        lines.append(note + whose)
    return lines


def compute(x: float) -> str:
    """Write an x, in GPU-hours, steps, rollouts or tokens."""
    return hours(x) if x < 1e6 else count(x)


def score(value: float) -> str:
    """Write a score with the digits that its size deserves."""
    size = abs(value)
    if 0 < size < 0.005:
        return f"{value:.1e}" if size < 0.0005 else f"{value:.4f}"
    if size < 10:
        return f"{value:.2f}"
    if size < 100:
        return f"{value:.1f}"
    return f"{value:,.0f}" if size < 1e6 else f"{value:.3g}"
