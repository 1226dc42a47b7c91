"""The curves that `rlplan fit` and `compare` take: the files, the window, the cut, and where to predict."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from budgets.errors import InputError, MissingFileError, UnknownNameError
from planner.curves.curve import Curve
from planner.curves.files import Table, read_table
from planner.curves.files.assembly import curves_of
from planner.curves.files.tabular import paths_of, table_in_memory
from planner.curves.fit import cut_before
from planner.curves.laws import Law
from rlplan.requests.logs import FitRequest
from rlplan.wording.numbers import count, hours, number_in

Item = TypeVar("Item")
Content = TypeVar("Content")
Split = Callable[[Path, Table], dict[float | str, Table]]
WIDE = 140  # columns from which every prediction, the noise and the evidence stand in the table itself
DEFAULT_MULTIPLES = (2.0, 4.0)  # of the last x used
PLOT_SUFFIX = ".html"


@dataclass(frozen=True)
class Target:
    """Where to predict: at an x, at a multiple of the last x used, or (neither) at the end of the file."""

    label: str
    x: float | None = None
    multiple: float | None = None

    def of(self, whole: Curve, used: Curve) -> float:
        """Return the x for one curve."""
        if self.x is not None:
            return self.x
        return self.multiple * float(used.x[-1]) if self.multiple is not None else whole.end[0]


def require_sound(request: FitRequest) -> None:
    """Refuse what cannot be asked for, before anything is read."""
    fraction, until, plot = request.fit_fraction, request.fit_until, request.plot
    if request.law is not None and request.law not in list(Law):
        raise UnknownNameError("law", request.law, list(Law))
    if request.law is not None and request.answers is not None:
        raise InputError(f"--answers is not for --law {request.law}, which weighs all points alike: leave it out")
    if fraction is not None and until is not None:
        raise InputError(
            "{fit_fraction} and {fit_until} both say where to stop: give one",
            fit_fraction=f"{fraction:g}",
            fit_until=f"{until:g}",
        )
    if plot is not None and Path(plot).suffix.casefold() != PLOT_SUFFIX:
        raise InputError("{plot}: a plot is a page, so give it a name that ends with .html", plot=plot)
    if plot is not None and not Path(plot).parent.is_dir():
        raise InputError(f"{{plot}}: there is no folder '{Path(plot).parent}'; make it first", plot=plot)
    targets_of(request)


def targets_of(request: FitRequest) -> tuple[Target, ...]:
    """Return where to predict."""
    places: Any = request.predict_at
    several = places if isinstance(places, Sequence) and not isinstance(places, str) else [places]
    texts = [str(place) for place in several if place is not None]
    if not texts:
        return tuple(Target(f"{multiple:g}×", multiple=multiple) for multiple in DEFAULT_MULTIPLES)
    targets = tuple(Target("end") if text == "end" else Target(text, x=number_in(text)) for text in texts)
    for target in targets:
        if target.x is not None and not (math.isfinite(target.x) and target.x > 0):
            raise InputError("{predict_at}: give an x above 0, or 'end'", predict_at=f"'{target.label}'")
    return targets


@dataclass(frozen=True)
class FitJob:
    """A curve of a file, and the part of it that is fitted."""

    file: Path
    whole: Curve = field(repr=False)
    used: Curve = field(repr=False)
    cut: float  # what is fitted ends there


def gathered(items: Iterable[Item], read: Callable[[Item], Content]) -> tuple[list[Content], list[str]]:
    """Read every item; one that fails hides no other, and becomes a line.

    MissingFileError where no file is there.
    """
    contents: list[Content] = []
    failures: list[InputError] = []
    for item in items:
        try:
            contents.append(read(item))
        except InputError as failure:
            failures.append(failure)
    lines = list(map(str, failures))
    if failures and not contents and all(isinstance(failure, MissingFileError) for failure in failures):
        raise MissingFileError("; ".join(lines))
    return contents, lines


def fit_jobs(read: Iterable[tuple[Path, Sequence[Curve]]], request: FitRequest) -> tuple[list[FitJob], list[str]]:
    """Choose what is fitted of every curve; a line for each that leaves nothing."""
    jobs: list[FitJob] = []
    failures: list[str] = []
    for file, curves in read:
        chosen, refused = gathered(curves, partial(_job, file, request=request))
        jobs += chosen
        failures += [f"{file}: {line}" for line in refused]
    return _distinctly_named(jobs), failures


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


def _distinctly_named(jobs: list[FitJob]) -> list[FitJob]:
    """Write the folder before the name of a curve that another file has as well."""
    count = Counter(job.whole.name for job in jobs)

    def named(job: FitJob) -> FitJob:
        if count[job.whole.name] == 1:
            return job
        name = str(job.file.parent / job.whole.name)
        return replace(job, whole=replace(job.whole, name=name), used=replace(job.used, name=name))

    return [named(job) for job in jobs]


def tables_of(files: Any) -> tuple[list[tuple[Path, Table]], list[str]]:
    """Read every column of some files; one that fails does not hide the others."""
    if (table := table_in_memory(files)) is not None:
        return [(Path(table.name), table)], []
    read, failures = gathered(paths_of(files), lambda file: [(file, table) for table in read_table(file)])
    return [member for tables in read for member in tables], failures


def grouped_curves(
    tables: Sequence[tuple[Path, Table]], split: Split, request: FitRequest, errors: list[str]
) -> dict[float | str, list[Curve]]:
    """Return the curves of each part of all tables, as far as the window and the cut go; what failed joins `errors`."""
    grouped: dict[float | str, list[Curve]] = {}
    split_tables, unread = gathered(tables, lambda member: (member[0], split(*member)))
    errors += unread
    for file, parts in split_tables:
        read, unread = gathered(parts.items(), lambda part: (part[0], curves_in(part[1], request)))
        errors += unread
        for value, curves in read:
            jobs, refused = fit_jobs([(file, curves)], request)
            errors += refused
            grouped.setdefault(value, []).extend(job.used for job in jobs)
    return grouped


def curves_in(table: Table, request: FitRequest) -> list[Curve]:
    """Return the curves of a table by the columns that a request names."""
    return curves_of(table, x=request.x, y=request.y, by=request.by, percent=request.percent)


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
