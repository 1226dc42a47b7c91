"""What `rlplan fit` does, callable from Python: read the curves, choose what is fitted, fit all in one batch."""

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.fitting import PUBLISHED_CUT_GPU_HOURS, CurveFit, Prediction, best_cut, cut_before, fit_curves
from planner.curves.reading import read_curves
from rlplan.actions.fit_request import FitRequest, Target

GPU_HOUR_NAMES = {"gpu_hours", "gpu_hour", "gpuh", "compute"}


@dataclass(frozen=True)
class FitJob:
    """A curve of a file, and the part of it that is fitted."""

    file: Path
    whole: Curve = field(repr=False)
    used: Curve = field(repr=False)
    cut: float


@dataclass(frozen=True)
class FittedCurve(FitJob):
    """What the fit says of it; `observed` has one for each target."""

    fit: CurveFit = field(repr=False)
    now: Prediction
    observed: tuple[float | None, ...]
    fit_ms: float


@dataclass(frozen=True)
class Fits:
    """Every curve that could be fitted, and a line for each that could not."""

    curves: tuple[FittedCurve, ...]
    targets: tuple[Target, ...]
    level: float
    failures: tuple[str, ...]


def fit_files(files: Sequence[Path], request: FitRequest) -> Fits:
    """Read and fit the curves of some files; one that fails does not hide the others."""
    request.targets()  # what cannot be done is refused before a file is read
    request.cut_point()
    read: list[tuple[Path, list[Curve]]] = []
    failures: list[str] = []
    for file in files:
        try:
            read.append((file, read_curves(file, x=request.x, y=request.y, by=request.by, percent=request.percent)))
        except InputError as failure:
            failures.append(str(failure))
    return fit_read(read, request, failures)


def fit_read(read: Sequence[tuple[Path, Sequence[Curve]]], request: FitRequest, failures: Sequence[str] = ()) -> Fits:
    """Fit curves that were read already, each list with the name of where it comes from."""
    targets = request.targets()
    jobs, refused = fit_jobs(read, request)
    return Fits(tuple(_fit(jobs, targets, request.level)), targets, request.level, (*failures, *refused))


def fit_jobs(read: Sequence[tuple[Path, Sequence[Curve]]], request: FitRequest) -> tuple[list[FitJob], list[str]]:
    """Choose what is fitted of every curve; a line for each that leaves nothing."""
    cut = request.cut_point()
    jobs: list[FitJob] = []
    failures: list[str] = []
    for file, curves in read:
        for curve in curves:
            try:
                jobs.append(_job(file, curve, request, cut))
            except InputError as failure:
                failures.append(f"{file}: {failure}")
    return _distinctly_named(jobs), failures


def _fit(jobs: list[FitJob], targets: tuple[Target, ...], level: float) -> list[FittedCurve]:
    if not jobs:
        return []
    wanted = [[float(job.used.x[-1]), *(target.of(job.whole, job.used) for target in targets)] for job in jobs]
    begin = time.perf_counter()
    fits = fit_curves([job.used for job in jobs], wanted, level=level)
    milliseconds = (time.perf_counter() - begin) * 1000 / len(jobs)
    return [
        FittedCurve(
            **vars(job),
            fit=replace(fit, predictions=fit.predictions[1:], notes=(*fit.notes, *_seen_already(job, targets))),
            now=fit.predictions[0],
            observed=tuple(_observed(job, target) for target in targets),
            fit_ms=milliseconds,
        )
        for job, fit in zip(jobs, fits, strict=True)
    ]


def _job(file: Path, whole: Curve, request: FitRequest, cut: float | Literal["auto", "published"]) -> FitJob:
    """Take the window and then the cut; a cut that is chosen sees no point beyond the window."""
    if request.answers is not None:
        whole = whole.evaluated_on(request.answers)
    used = whole
    if request.fit_fraction is not None:
        used = whole.first_fraction(request.fit_fraction)
    elif request.fit_until is not None:
        used = whole.until(request.fit_until)
    if not np.any(used.x > 0):
        raise InputError(_nothing_to_fit(whole, request))
    if cut == "published" and re.sub(r"\W", "_", whole.x_name.casefold().rpartition("/")[2]) not in GPU_HOUR_NAMES:
        raise InputError(
            f"--cut published is {PUBLISHED_CUT_GPU_HOURS:,.0f} GPU-hours, but the x of curve '{whole.name}' is "
            f"'{whole.x_name}': name a column of GPU-hours with --x, or give the cut in '{whole.x_name}' or as auto"
        )
    at = best_cut(used) if cut == "auto" else PUBLISHED_CUT_GPU_HOURS if cut == "published" else cut
    return FitJob(file, whole, cut_before(used, at) if at > 0 else used, at)


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


def _seen_already(job: FitJob, targets: tuple[Target, ...]) -> list[str]:
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
