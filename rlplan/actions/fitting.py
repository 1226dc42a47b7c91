"""What `rlplan fit` does and answers: read the curves, choose what is fitted, fit all in one batch."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from budgets.errors import InputError, MissingFileError
from planner.curves.curve import Curve
from planner.curves.files import read_curves
from planner.curves.files.assembly import curves_of
from planner.curves.files.tabular import ARRAYS, paths_of, table_in_memory
from planner.curves.fit import CurveFit, Prediction, cut_before, fit_curves
from planner.metrics import Interval
from rlplan.actions.fit_window import Target, require_sound, targets_of
from rlplan.requests.foreign import FitRequest
from rlplan.wording.answers import Several
from rlplan.wording.documents import Key, Read, View, plain
from rlplan.wording.numbers import interval
from rlplan.wording.row_columns import columns

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True)
class FitJob:
    """A curve of a file, and the part of it that is fitted."""

    file: Path
    whole: Curve = field(repr=False)
    used: Curve = field(repr=False)
    cut: float  # what is fitted ends there


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
    points = Key[int](lambda each: int(each.whole.x.size), "How many the file has.")
    used_points = Key[int]("fit.used_points", "How many were fitted.")
    last_used_x = Key[float](lambda each: float(each.used.x[-1]), "Where the last of them is.")
    verdict = Key[str]("fit.verdict.value", "rising, saturated, flat, declining, collapsed or not-identifiable.")
    evidence = Key[str]("fit.evidence", "What the verdict rests on.")
    parameters = Key[Mapping[str, Interval]]("fit.parameters", "R0, A, B and C_mid, with intervals.")
    predictions = Read[tuple[Prediction, ...]]("fit.predictions", "The mean score at each x that was asked for.")
    held = Key[Sequence[HeldPrediction]](
        lambda each: list(map(HeldPrediction, each.predictions, each.observed)), name="predictions"
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

    DRAWN = "rlplan.commands.fit"
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
        return [row for each in self.curves for row in each.rows()]


def fit_curves_of(asked: FitRequest) -> Fits:
    """Read and fit the curves that are given; InputError where there is none, else one that fails hides no other."""
    require_sound(asked)
    targets = targets_of(asked)
    columns: dict[str, Any] = {name: getattr(asked, name) for name in ("x", "y", "by", "percent")}
    read: Sequence[tuple[Path, Sequence[Curve]]]
    unread: Sequence[str] = ()
    if (table := table_in_memory(asked.files)) is not None:
        if table.name == ARRAYS:
            columns |= {"x": "x", "y": "score", "by": ""}
        read = [(Path(table.name), curves_of(table, **columns))]
    else:
        read, unread = gathered(paths_of(asked.files), lambda file: (file, read_curves(file, **columns)))
    jobs, refused = fit_jobs(read, asked)
    failures = (*unread, *refused)
    if not jobs:
        raise InputError("; ".join(failures) or "there is no curve to fit: give at least one")
    return Fits(tuple(_fit(jobs, targets, asked.level)), targets, asked.level, failed=failures)


def _read(asked: FitRequest) -> tuple[list[tuple[Path, Sequence[Curve]]], list[str]]:
    """Return the curves of what was given, with where they come from, and a line for each file that failed."""
    columns: dict[str, Any] = {name: getattr(asked, name) for name in ("x", "y", "by", "percent")}
    if (table := table_in_memory(asked.files)) is not None:
        if table.name == ARRAYS:
            columns |= {"x": "x", "y": "score", "by": ""}
        return [(Path(table.name), curves_of(table, **columns))], []
    return gathered(paths_of(asked.files), lambda file: (file, read_curves(file, **columns)))


def gathered(given: Iterable[Given], read: Callable[[Given], Found]) -> tuple[list[Found], list[str]]:
    """Read each of what is given; what fails hides no other, and becomes a line.

    MissingFileError where none is there.
    """
    found: list[Found] = []
    failures: list[InputError] = []
    for each in given:
        try:
            found.append(read(each))
        except InputError as failure:
            failures.append(failure)
    lines = list(map(str, failures))
    if failures and not found and all(isinstance(each, MissingFileError) for each in failures):
        raise MissingFileError("; ".join(lines))
    return found, lines


def fit_jobs(read: Iterable[tuple[Path, Sequence[Curve]]], request: FitRequest) -> tuple[list[FitJob], list[str]]:
    """Choose what is fitted of every curve; a line for each that leaves nothing."""
    jobs: list[FitJob] = []
    failures: list[str] = []
    for file, curves in read:
        found, refused = gathered(curves, partial(_job, file, request=request))
        jobs += found
        failures += [f"{file}: {each}" for each in refused]
    return _distinctly_named(jobs), failures


def _fit(jobs: list[FitJob], targets: tuple[Target, ...], level: float) -> list[Fit]:
    if not jobs:
        return []
    wanted = [[float(job.used.x[-1]), *(target.of(job.whole, job.used) for target in targets)] for job in jobs]
    begin = time.perf_counter()
    fits = fit_curves([job.used for job in jobs], wanted, level=level)
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


def _job(file: Path, whole: Curve, request: FitRequest) -> FitJob:
    """Take the window and then the cut."""
    if request.answers is not None:
        whole = whole.evaluated_on(request.answers)
    used = whole
    if request.fit_fraction is not None:
        used = whole.first_fraction(request.fit_fraction)
    elif request.fit_until is not None:
        used = whole.until(request.fit_until)
    if not np.any(used.x > 0):
        raise InputError(_nothing_to_fit(whole, request))
    return FitJob(file, whole, cut_before(used, request.cut) if request.cut else used, request.cut or 0.0)


def _nothing_to_fit(whole: Curve, request: FitRequest) -> str:
    positive = whole.x[whole.x > 0]
    if not positive.size:
        return (
            f"curve '{whole.name}' has no usable point at positive x ({whole.x.size} in all): at least one finite "
            "score at x > 0 is needed"
        )
    flag = (
        f"--fit-fraction {request.fit_fraction:g}"
        if request.fit_fraction is not None
        else f"--fit-until {request.fit_until:g}"
    )
    return (
        f"{flag} leaves no point of curve '{whole.name}': its {positive.size} points go from x = {positive[0]:g} to "
        f"{positive[-1]:g}; give more"
    )


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


def _distinctly_named(jobs: list[FitJob]) -> list[FitJob]:
    """Write the folder before the name of a curve that another file has as well."""
    count = Counter(job.whole.name for job in jobs)

    def named(job: FitJob) -> FitJob:
        if count[job.whole.name] == 1:
            return job
        name = str(job.file.parent / job.whole.name)
        return replace(job, whole=replace(job.whole, name=name), used=replace(job.used, name=name))

    return [named(job) for job in jobs]
