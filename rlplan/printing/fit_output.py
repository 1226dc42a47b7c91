"""Prints fitted curves, laws and compared recipes: as a table for a person, as JSON or CSV; and has them drawn."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.curves.families import Law
from planner.curves.fitting import Interval, Prediction
from planner.curves.verdicts import MOST_OF_THE_SCALE
from rlplan.actions.fit_data import comparison_data, comparison_rows, csv_rows, fits_data, law_rows, laws_data
from rlplan.actions.fitting import Fits, FittedCurve
from rlplan.exits import ExitCode
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import ROWS, Invocation, NextStep, next_steps
from rlplan.wording.numbers import count, hours, listing, plural, some_of
from rlplan.wording.tables import Cells, Column, listed, shortened, table_of
from rlplan.wording.terminal import Canvas, tell

if TYPE_CHECKING:
    from planner.curves.comparison import ComparedRecipe, Comparison
    from planner.curves.settling import Difference
    from rlplan.actions.law_fitting import LawFits

FORMS = {
    Law.SIGMOID: "R(C) = R0 + (A − R0) / (1 + (C_mid/C)^B)",
    Law.POWER: "R(C) = A − D / C^B",
    Law.MODEL_SIZE: "log10(1 − R) = −k(N)·log10 X + E(N), k(N) = K_max / (1 + N_0/N)",
    Law.GROUP_SIZE: "log2 n*(C) = L / (1 + exp(−k·(log10 C − c0))) + b",
    Law.VALUE_BASED: "D(σ, N) = D_min·[1 + (a/σ)^alpha + (b/N)^beta], σ updates per step",
}
WIDE = 140  # columns from which every prediction, the noise and the evidence stand in the table itself
EXPLAINED = 5  # curves up to which the evidence is written out
NAMED = 3  # curves that are named beside a note they share


def print_fits(fits: Fits, format: Format, invocation: Invocation, *, undrawn: bool) -> int:
    """Print what was fitted, report what failed, and return the exit code."""
    if fits.curves:
        if format is Format.JSON:
            print_json(fits_data(fits))
        elif format is Format.CSV:
            rows = csv_rows(fits)
            print_csv(list(rows[0]), rows)
        else:
            print_drawn(lambda canvas: _parts(fits, undrawn, invocation, canvas))
    return _failed(fits.failures)


def print_laws(fits: "LawFits", format: Format, invocation: Invocation, *, undrawn: bool) -> int:
    """Print what tables say of a law, as `print_fits` does of curves."""
    if fits.fits:
        if format is Format.JSON:
            print_json(laws_data(fits))
        elif format is Format.CSV:
            print_csv(("law", "name", "identified", "what", "x", "median", "low", "high", "level"), law_rows(fits))
        else:
            steps = [invocation.with_flags("draws it", "--plot", "fit.html")] if undrawn else []
            steps += [invocation.with_flags("every number", "--format", "csv")]
            print_drawn(lambda canvas: [*_law_parts(fits, canvas), *next_steps(steps, canvas)])
    return _failed(fits.failures)


def print_comparison(
    comparison: "Comparison", failures: Sequence[str], files: Sequence[Path], format: Format, invocation: Invocation
) -> int:
    """Print how far the first two differ and what would settle that, and recipes from the best to the worst."""
    if format is Format.JSON:
        print_json(comparison_data(comparison))
    elif format is Format.CSV:
        rows = comparison_rows(comparison)
        print_csv(list(rows[0]), rows)
    else:
        again = NextStep(shlex.join(["rlplan", "fit", *map(str, files)]), "where each curve goes")
        steps = [again, invocation.with_flags("every number", "--format", "csv")]
        print_drawn(lambda canvas: [*_comparison_parts(comparison, canvas), *next_steps(steps, canvas)])
    return _failed(failures)


def _failed(failures: Sequence[str]) -> int:
    for failure in failures:
        tell(f"rlplan: {failure}")
    return ExitCode.BAD_INPUT if failures else ExitCode.DONE


def _law_parts(fits: "LawFits", canvas: Canvas) -> Iterator[Part]:
    from rich.text import Text  # noqa: PLC0415

    yield Text(f"The law '{fits.law}': {FORMS[fits.law]}", "bold")
    yield Text(f"Intervals hold {fits.level * 100:g} %, if the law holds.", "dim")
    columns: Sequence[Column[tuple[str, Any]]] = (
        Column("", itemgetter(0)),
        Column(fits.law.value, lambda row: f"{row[1].median:.4g}"),
        Column(f"{fits.level * 100:g} % interval", lambda row: f"{row[1].low:.4g} – {row[1].high:.4g}"),
    )
    for fitted in fits.fits:
        fit = fitted.fit
        yield ""
        yield Text(f"{fit.name}: {'' if fit.identified else 'this table cannot tell'}".rstrip(": "), "bold")
        rows: list[tuple[str, Any]] = list(fit.parameters(fits.level).items())
        rows += [(f"{each.series or 'score'} at {compute(each.x)}", each) for each in fitted.predictions]
        if rows:
            yield table_of(rows, columns, canvas)
        yield from listed("Why not", fit.doubts)
        yield from listed("Mind", fit.notes)


def _comparison_parts(comparison: "Comparison", canvas: Canvas) -> Iterator[Part]:
    yield from canvas.lines(_difference(comparison), "bold")
    yield from canvas.lines(_settling(comparison.difference))
    if tied := [each.name for each in comparison.recipes[1:] if each.tie_group == comparison.recipes[0].tie_group]:
        yield from canvas.lines(
            f"{comparison.recipes[0].name} is ranked first: it is within {comparison.margin:.2g} of {listing(tied)}, "
            "and learns earlier."
        )
    yield ""
    wide = canvas.width >= WIDE
    columns: Sequence[Column[ComparedRecipe]] = (
        Column("recipe", attrgetter("name"), Cells.PATHS),
        Column("rank", attrgetter("rank")),
        Column("A", lambda each: f"{each.A.median:.3f} ({each.A.low:.3f}–{each.A.high:.3f})"),
        Column("C_mid", lambda each: _computes(each.C_mid)),
        Column("equal", lambda each: f"{each.probability_tied:.2f}"),
        Column("best", lambda each: f"{each.probability_best:.2f}"),
        Column("B", lambda each: score(each.B.median), shown=wide),
        Column("group", attrgetter("tie_group"), shown=wide),
        Column("runs", attrgetter("runs"), shown=wide),
    )
    yield table_of(comparison.recipes, columns, canvas)
    yield from listed("Mind", comparison.notes)


def _difference(comparison: "Comparison") -> str:
    """Say which of the first two ends higher, or that no difference can be measured."""
    apart, margin = comparison.difference, comparison.margin
    low, high = apart.A.low, apart.A.high
    within = f"{comparison.level:.0%} interval {low:+.2g} to {high:+.2g}"
    if low > 0 or high < 0:
        one, other = (apart.first, apart.second) if low > 0 else (apart.second, apart.first)
        return f"{one} ends {abs(apart.A.median):.2g} higher than {other} ({within})."
    if apart.settled:
        return f"{apart.first} and {apart.second} end within {margin:.2g} of each other ({within})."
    return f"No measurable difference between {apart.first} and {apart.second} ({within})."


def _settling(apart: "Difference") -> str:
    if apart.settled:
        return "That is settled: more runs would not change it."
    ways = [f"{plural(apart.more_runs, 'more run')} of each"] if apart.more_runs is not None else []
    ways += [f"runs of {apart.longer:g} times the length"] if apart.longer is not None else []
    if not ways:
        return "Neither 50 more runs of each nor runs of 8 times the length would settle it."
    return f"What would settle it: {', or '.join(ways)}."


def _computes(value: Interval) -> str:
    return f"{compute(value.median)} ({compute(value.low)}–{compute(value.high)})"


def _parts(fits: Fits, undrawn: bool, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    wide, in_full = canvas.width >= WIDE, invocation.explain
    yield from canvas.lines(_title(fits), "bold")
    if len(fits.curves) == 1:
        yield from canvas.lines(_expected(fits.curves[0]))
    yield ""
    shown = fits.curves if in_full else fits.curves[:ROWS]
    yield _table(replace(fits, curves=shown), canvas)
    if (hidden := len(fits.curves) - len(shown)) > 0:
        yield canvas.line(f"{plural(hidden, 'curve')} not shown", "dim")
    notes = _notes(fits)
    if in_full:
        yield from canvas.lines(_legend(fits), "dim")
        yield from listed("Why", [] if wide else _reasons(fits))
    yield from listed("Mind", notes if in_full else [shortened(note, 2 * canvas.width - 20) for note in notes[:NAMED]])
    drawn = [invocation.with_flags("draws it", "--plot", "fit.html")] if undrawn else []
    rest = [] if in_full else [invocation.explained("why, and every note")]
    if further := [*drawn, *rest]:
        yield from next_steps(further, canvas)


def _expected(curve: FittedCurve) -> str:
    """Say where a curve is and where it should be, in a sentence."""
    goes = ""
    if curve.fit.predictions:
        last = curve.fit.predictions[-1]
        place = f"{curve.whole.x_name} {compute(last.x)}"
        goes = f" Expected {_interval(last)} at {place}."
        if last.high - last.low > MOST_OF_THE_SCALE * _span(curve):  # its middle says nothing of where the curve goes
            goes = f" Its score at {place} is not yet known: {score(last.low)} to {score(last.high)}."
    return f"It is {curve.fit.verdict.value.replace('-', ' ')}: {score(curve.now.mean)} now.{goes}"


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


def _table(fits: Fits, canvas: Canvas) -> Part:
    wide = canvas.width >= WIDE
    shown = range(len(fits.targets)) if wide else [len(fits.targets) - 1]
    observed = [any(curve.observed[number] is not None for curve in fits.curves) for number in range(len(fits.targets))]
    predicted = [
        column
        for number in shown
        for column in (
            Column(f"at {_place(fits, number)}", partial(_predicted, number)),
            Column("observed", partial(_observed, number), shown=observed[number]),
        )
    ]
    columns: Sequence[Column[FittedCurve]] = (
        Column("curve", attrgetter("fit.curve"), Cells.PATHS),
        Column("points", lambda curve: f"{_points(curve.fit.used_points)}/{_points(curve.whole.x.size)}"),
        Column("verdict", lambda curve: curve.fit.verdict.value.replace("-", " "), Cells.TEXTS),
        Column("now", lambda curve: score(curve.now.mean), shown=wide or not any(observed[at] for at in shown)),
        *predicted,
        Column("A", _asymptote),
        Column("noise", lambda curve: f"{curve.fit.noise_sd:.2g}", shown=wide),
        Column("evidence", attrgetter("fit.evidence"), Cells.TEXTS, shown=wide),
    )
    return table_of(fits.curves, columns, canvas)


def _predicted(number: int, curve: FittedCurve) -> str:
    return _interval(curve.fit.predictions[number])


def _observed(number: int, curve: FittedCurve) -> str:
    came = curve.observed[number]
    return "–" if came is None else score(came)


def _place(fits: Fits, number: int) -> str:
    """Name the x of a prediction where it is the same for all curves, else what was asked for."""
    places = {curve.fit.predictions[number].x for curve in fits.curves}
    return compute(places.pop()) if len(places) == 1 else fits.targets[number].label


def _points(number: int) -> str:
    return f"{number:,}" if number < 10_000 else count(number)


def _asymptote(curve: FittedCurve) -> str:
    interval = curve.fit.parameters["A"]
    return "not yet known" if interval.high - interval.low > MOST_OF_THE_SCALE * _span(curve) else _interval(interval)


def _span(curve: FittedCurve) -> float:
    """Return the span of the scale; one without bounds has twice what was seen so far instead."""
    return 1.0 if curve.used.bounded else 2 * float(np.ptp(curve.used.y))


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
    return [
        note if len(names) == len(fits.curves) else f"{note}: {some_of(names, NAMED)}" for note, names in curves.items()
    ]


def compute(x: float) -> str:
    """Write an x, in GPU-hours, steps, rollouts or tokens."""
    if x >= 1e15:  # FLOPs
        return f"{x:.3g}"
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
