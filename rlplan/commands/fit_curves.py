"""What `rlplan fit` says of curves: where each is, where it goes, how sure that is, and why."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.files import read_curves
from planner.curves.files.assembly import curves_of
from planner.curves.files.tabular import ARRAYS, paths_of, table_in_memory
from planner.curves.fit import CurveFit, Prediction, fit_curves
from planner.curves.verdicts import MOST_OF_THE_SCALE
from planner.metrics import Interval
from rlplan.actions.curve_jobs import (
    WIDE,
    FitJob,
    Target,
    compute,
    fit_jobs,
    gathered,
    require_sound,
    score,
    targets_of,
)
from rlplan.requests.logs import FitRequest
from rlplan.wording.answers import Key, Read, Several, View, columns, plain
from rlplan.wording.numbers import count, interval, plural, some_of
from rlplan.wording.screen import ROWS, Canvas, Cells, Column, Invocation, Part, listed, next_steps, shortened, table_of

EXPLAINED = 5  # curves up to which the evidence is written out
NAMED = 3  # curves that are named beside a note they share


@dataclass(frozen=True)
class HeldPrediction(View[Prediction]):
    """A prediction, with the mean of what the file has there."""

    WHOLE = Prediction
    seen: float | None = field(repr=False)
    observed = Key[float | None]("seen", optional=True)


@dataclass(frozen=True, repr=False)
class Fit(FitJob):
    """What the points of one curve say; `observed` is what came of each prediction, None if it is not known."""

    fit: CurveFit = field(repr=False)
    now: Prediction
    observed: tuple[float | None, ...] = field(repr=False)
    fit_ms: float

    curve = Key[str]("fit.curve", "The curve's name.")
    x = Key[str]("whole.x_name", "The column of its x axis.")
    y = Key[str]("whole.y_name", "The column of its scores.")
    points = Key[int](lambda fit: int(fit.whole.x.size), "How many the file has.")
    used_points = Key[int]("fit.used_points", "How many were fitted.")
    last_used_x = Key[float](lambda fit: float(fit.used.x[-1]), "Where the last of them is.")
    verdict = Key[str]("fit.verdict.value", "rising, saturated, flat, declining, collapsed or not-identifiable.")
    evidence = Key[str]("fit.evidence", "What the verdict rests on.")
    parameters = Key[Mapping[str, Interval]]("fit.parameters", "R0, A, B and C_mid, with intervals.")
    predictions = Read[tuple[Prediction, ...]]("fit.predictions", "The mean score at each x that was asked for.")
    held = Key[Sequence[HeldPrediction]](
        lambda fit: list(map(HeldPrediction, fit.predictions, fit.observed)), name="predictions"
    )
    noise_sd = Key[float]("fit.noise_sd", "The standard deviation of a score around the curve.")
    notes = Read[Sequence[str]]("fit.notes", "What was done to the points, and what to mind.")
    lines = Key[Sequence[str]]("fit.notes", name="notes")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a flat row for each prediction."""
        row = plain(self)
        row["x_column"], row["y_column"] = row.pop("x"), row.pop("y")
        predictions, parameters, now = row.pop("predictions"), row.pop("parameters"), row.pop("now")
        row |= {f"{name}_{part}": value for name, parts in parameters.items() for part, value in parts.items()}
        row |= {"now": now["mean"], "now_low": now["low"], "now_high": now["high"]}
        row["notes"] = "; ".join(row["notes"])
        return (row | prediction for prediction in predictions)

    def __repr__(self) -> str:
        last = self.predictions[-1] if self.predictions else self.now
        return f"<Fit of {self.curve}: {self.verdict}, {interval(last.mean, last.low, last.high)} at x={last.x:.4g}>"


@dataclass(frozen=True, repr=False)
class Fits(Several[Fit]):
    """The fits of all curves, by place or by the curve's name; what could not be read or fitted is in `failures`."""

    COLUMNS = columns("""
        curve file points used_points last_used_x cut verdict evidence noise_sd fit_ms x_column y_column
        R0_median R0_low R0_high A_median A_low A_high B_median B_low B_high C_mid_median C_mid_low C_mid_high
        now now_low now_high observed x mean low high level expectation notes
    """)
    MEMBERS, NAMED = "curves", "curve"

    curves: tuple[Fit, ...]
    targets: tuple[Target, ...] = field(repr=False)
    level: float = field(repr=False)

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each prediction of each curve."""
        return [row for curve in self.curves for row in curve.rows()]

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw the curves with their verdicts and forecasts, and what to mind."""
        wide, in_full = canvas.width >= WIDE, invocation.explain
        yield from canvas.lines(_title(self), "bold")
        if len(self.curves) == 1:
            curve = self.curves[0]
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
        shown = self.curves if in_full else self.curves[:ROWS]
        yield _table(replace(self, curves=shown), canvas)
        if (hidden := len(self.curves) - len(shown)) > 0:
            yield canvas.line(f"{plural(hidden, 'curve')} not shown", "dim")
        notes = _notes(self)
        if in_full:
            relative = any(target.multiple is not None for target in self.targets) and len(self.curves) > 1
            legend = (
                f"Intervals hold {self.level * 100:g} %. Points: used / in the file. Now: the mean score at the last "
                "of them. A: where the curve ends if it is a sigmoid."
            )
            yield from canvas.lines(legend + (" n×: at n times the last x used." if relative else ""), "dim")
            yield from listed("Why", [] if wide else _reasons(self))
        yield from listed(
            "Mind", notes if in_full else [shortened(note, 2 * canvas.width - 20) for note in notes[:NAMED]]
        )
        drawn = [invocation.with_flags("draws it", "--plot", "fit.html")] if not self.drawn else []
        rest = [] if in_full else [invocation.explained("why, and every note")]
        if further := [*drawn, *rest]:
            yield from next_steps(further, canvas)


def fit_curves_of(request: FitRequest) -> Fits:
    """Read and fit the curves that are given; InputError where there is none, else one that fails hides no other."""
    require_sound(request)
    targets = targets_of(request)
    columns: dict[str, Any] = {name: getattr(request, name) for name in ("x", "y", "by", "percent")}
    read: Sequence[tuple[Path, Sequence[Curve]]]
    unread: Sequence[str] = ()
    if (table := table_in_memory(request.files)) is not None:
        if table.name == ARRAYS:
            columns |= {"x": "x", "y": "score", "by": ""}
        read = [(Path(table.name), curves_of(table, **columns))]
    else:
        read, unread = gathered(paths_of(request.files), lambda file: (file, read_curves(file, **columns)))
    jobs, refused = fit_jobs(read, request)
    failures = (*unread, *refused)
    if not jobs:
        raise InputError("; ".join(failures) or "there is no curve to fit: give at least one")
    return Fits(tuple(_fit(jobs, targets, request.level)), targets, request.level, failed=failures)


def _fit(jobs: list[FitJob], targets: tuple[Target, ...], level: float) -> list[Fit]:
    if not jobs:
        return []
    places = [[float(job.used.x[-1]), *(target.of(job.whole, job.used) for target in targets)] for job in jobs]
    begin = time.perf_counter()
    fits = fit_curves([job.used for job in jobs], places, level=level)
    milliseconds = (time.perf_counter() - begin) * 1000 / len(jobs)
    return [
        Fit(
            **vars(job),
            fit=replace(fit, predictions=fit.predictions[1:], notes=(*fit.notes, *_within_fit(job, targets))),
            now=fit.predictions[0],
            observed=tuple(_observed(job, target) for target in targets),
            fit_ms=milliseconds,
        )
        for job, fit in zip(jobs, fits, strict=True)
    ]


def _within_fit(job: FitJob, targets: tuple[Target, ...]) -> list[str]:
    """Say of an x that was asked for that it is no forecast, which another x axis than the one thought of may cause."""
    last = float(job.used.x[-1])
    return [
        f"x = {target.label} lies inside of what was fitted, which goes to {last:,.6g} of '{job.whole.x_name}': that "
        "is the curve there, no forecast; if another column was meant, name it with --x"
        for target in targets
        if target.x is not None and target.x <= last
    ]


def _observed(job: FitJob, target: Target) -> float | None:
    """Return what the file holds at its end, if that was kept from the fit."""
    middle, mean = job.whole.end
    unseen = bool(job.used.x[-1] < job.whole.x[-1])
    return mean if unseen and target.of(job.whole, job.used) == middle else None


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
            Column("observed", partial(_observed_text, number), shown=observed[number]),
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


def _observed_text(number: int, curve: Fit) -> str:
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
        others = [f"at {compute(point.x)}: {_interval(point)}" for point in curve.fit.predictions[:-1]]
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
