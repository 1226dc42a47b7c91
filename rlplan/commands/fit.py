"""`rlplan fit`: where curves are, where they go, how sure that is, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from planner.curves.fit import Prediction
from planner.curves.verdicts import MOST_OF_THE_SCALE
from planner.metrics import Interval
from rlplan.actions.fitting import Fit, Fits, fit_curves_of
from rlplan.requests.foreign import FitRequest
from rlplan.wording.draw import ROWS, Canvas, Cells, Column, Invocation, Part, listed, next_steps, shortened, table_of
from rlplan.wording.numbers import count, hours, plural, some_of

if TYPE_CHECKING:
    from rlplan.actions.law_fitting import FittedLaws

Found = TypeVar("Found", Fits, "FittedLaws")
WIDE = 140  # columns from which every prediction, the noise and the evidence stand in the table itself
EXPLAINED = 5  # curves up to which the evidence is written out
NAMED = 3  # curves that are named beside a note they share


def answer(asked: FitRequest) -> "Fits | FittedLaws":
    """Fit curves or a law, and draw them where that is asked for."""
    if asked.law is not None:
        from rlplan.actions.law_fitting import fit_law  # noqa: PLC0415 (of laws alone)

        return _drawn(fit_law(asked), asked)
    return _drawn(fit_curves_of(asked), asked)


def _drawn(found: Found, asked: FitRequest) -> Found:
    if asked.plot is None:
        return found
    from rlplan.web.fits import write_fits  # noqa: PLC0415 (of pages alone)

    return replace(found, drawn=(write_fits(found, Path(asked.plot)),))


def parts(fits: Fits, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw the curves with their verdicts and forecasts, and what to mind."""
    wide, in_full = canvas.width >= WIDE, invocation.explain
    yield from canvas.lines(_title(fits), "bold")
    if len(fits.curves) == 1:
        curve = fits.curves[0]
        goes = ""
        if curve.fit.predictions:
            last = curve.fit.predictions[-1]
            place = f"{curve.whole.x_name} {compute(last.x)}"
            goes = f" Expected {_interval(last)} at {place}."
            # The middle of a wide interval says nothing of where the curve goes.
            if last.high - last.low > MOST_OF_THE_SCALE * _span(curve):
                goes = f" Its score at {place} is not yet known: {score(last.low)} to {score(last.high)}."
        verdict = curve.fit.verdict.value.replace("-", " ")
        yield from canvas.lines(f"It is {verdict}: {score(curve.now.mean)} now.{goes}")
    yield ""
    shown = fits.curves if in_full else fits.curves[:ROWS]
    yield _table(replace(fits, curves=shown), canvas)
    if (hidden := len(fits.curves) - len(shown)) > 0:
        yield canvas.line(f"{plural(hidden, 'curve')} not shown", "dim")
    notes = _notes(fits)
    if in_full:
        relative = any(target.multiple is not None for target in fits.targets) and len(fits.curves) > 1
        legend = (
            f"Intervals hold {fits.level * 100:g} %. Points: used / in the file. Now: the mean score at the last of "
            "them. A: where the curve ends if it is a sigmoid."
        )
        yield from canvas.lines(legend + (" n×: at n times the last x used." if relative else ""), "dim")
        yield from listed("Why", [] if wide else _reasons(fits))
    yield from listed("Mind", notes if in_full else [shortened(note, 2 * canvas.width - 20) for note in notes[:NAMED]])
    drawn = [invocation.with_flags("draws it", "--plot", "fit.html")] if not fits.drawn else []
    rest = [] if in_full else [invocation.explained("why, and every note")]
    if further := [*drawn, *rest]:
        yield from next_steps(further, canvas)


def _title(fits: Fits) -> str:
    names = {(curve.whole.y_name, curve.whole.x_name) for curve in fits.curves}
    axes = "{} against {}".format(*names.pop()) if len(names) == 1 else "scores against compute"
    if len(fits.curves) == 1:
        return f"{fits.curves[0].fit.curve}: {axes}"
    return f"{len(fits.curves)} curves of {plural(len({curve.file for curve in fits.curves}), 'file')}: {axes}"


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
    columns: Sequence[Column[Fit]] = (
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


def _predicted(number: int, curve: Fit) -> str:
    return _interval(curve.fit.predictions[number])


def _observed(number: int, curve: Fit) -> str:
    came = curve.observed[number]
    return "–" if came is None else score(came)


def _place(fits: Fits, number: int) -> str:
    """Name the x of a prediction where it is the same for all curves, else what was asked for."""
    places = {curve.fit.predictions[number].x for curve in fits.curves}
    return compute(places.pop()) if len(places) == 1 else fits.targets[number].label


def _points(number: int) -> str:
    return f"{number:,}" if number < 10_000 else count(number)


def _asymptote(curve: Fit) -> str:
    interval = curve.fit.parameters["A"]
    return "not yet known" if interval.high - interval.low > MOST_OF_THE_SCALE * _span(curve) else _interval(interval)


def _span(curve: Fit) -> float:
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
