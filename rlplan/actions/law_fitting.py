"""What `rlplan fit --law` and `rlplan compare` do, callable from Python: tables into groups of curves, then the law."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from budgets.errors import InputError
from planner.curves.comparison import Comparison, compare
from planner.curves.curve import Curve
from planner.curves.families import Law
from planner.curves.laws import LawFit, fit_curve_law, fit_law_over, fit_value_based, numbers_for, parts_by
from planner.curves.reading import Table, read_table
from planner.curves.reading.assembly import curves_of
from planner.curves.reading.names import resolve
from rlplan.actions.fit_request import FitRequest
from rlplan.actions.fitting import fit_jobs

Tables = Sequence[tuple[Path, Table]]
Grouped = dict[float | str, list[Curve]]


@dataclass(frozen=True)
class LawPrediction:
    """What a law gives at one x, with its interval; `series` says of what (a model size), '' where there is but one."""

    series: str
    x: float
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class FittedLaw:
    """A law fitted to a curve, or to a table as a whole, and what it predicts."""

    file: Path
    fit: LawFit
    predictions: tuple[LawPrediction, ...]


@dataclass(frozen=True)
class LawFits:
    """The fits of one law, and a line for each file or curve that could not be read."""

    law: Law
    fits: tuple[FittedLaw, ...]
    level: float
    failures: tuple[str, ...]


def read_tables(files: Sequence[Path]) -> tuple[list[tuple[Path, Table]], list[str]]:
    """Read every column of some files; one that fails does not hide the others."""
    tables: list[tuple[Path, Table]] = []
    failures: list[str] = []
    for file in files:
        try:
            tables += [(file, table) for table in read_table(file)]
        except InputError as failure:
            failures.append(str(failure))
    return tables, failures


def fit_law(tables: Tables, request: FitRequest, failures: Sequence[str] = ()) -> LawFits:
    """Fit the law that is asked for: to every curve, or where it goes across runs, to all tables together."""
    law, targets, said = Law(str(request.law)), request.targets(), list(failures)
    if law in (Law.SIGMOID, Law.POWER):
        read = []
        for file, table in tables:
            try:
                read.append((file, _curves(table, request)))
            except InputError as failure:
                said.append(str(failure))
        jobs, refused = fit_jobs(read, request)
        found = [(job.file, fit_curve_law(law, job.used), {"": job.whole}) for job in jobs]
        said += refused
    elif tables and law is Law.VALUE_BASED:
        found = [(file, fit_value_based(table), {}) for file, table in tables]
        targets = ()
    elif tables:
        grouped, said = _grouped_by_number(tables, law, request, said)
        fit = fit_law_over(law, _name(tables), grouped) if grouped else None
        found = [] if fit is None else [(tables[0][0], fit, dict(fit.points))]
    else:
        found = []
    fits = []
    for file, fit, whole in found:
        predictions = []
        for series, curve in whole.items():
            at = np.array([target.of(curve, fit.points[series]) for target in targets])
            if fit.draws is not None and at.size:
                rows = zip(at, *fit.at(series, at, request.level), strict=True)
                predictions += [LawPrediction(series, *map(float, row)) for row in rows]
        fits.append(FittedLaw(file, fit, tuple(predictions)))
    return LawFits(law, tuple(fits), request.level, tuple(said))


def compare_recipes(
    tables: Tables, by: str | None, request: FitRequest, failures: Sequence[str] = ()
) -> tuple[Comparison, list[str]]:
    """Compare what a column tells apart, or file with file; also return a line for each table that is of no use."""
    said = list(failures)
    found: Grouped = {}
    for file, table in tables:
        try:
            if by is None:
                _gather(found, file, {_recipe_of(file, tables): table}, request, said)
                continue
            name = resolve(by, table, "--by", text=True)
            values = table.text[name] if name in table.text else table.columns[name]
            _gather(found, file, parts_by(table, name, values), request, said)
        except InputError as failure:
            said.append(str(failure))
    if not found:
        raise InputError("; ".join(said) or "there is no curve to compare: give two files")
    named = {value if isinstance(value, str) else f"{by}={value:g}": curves for value, curves in found.items()}
    if len(named) < 2:
        only = f"all curves are of {next(iter(named))}"
        if by is None:
            raise InputError(f"{only}: give two files, or the column that tells the recipes of one apart by --by")
        raise InputError(f"--by {by}: {only}; add those of another, or name another column")
    return compare(named, level=request.level), said


def _recipe_of(file: Path, tables: Tables) -> str:
    """Name a file by its stem, and by its folder too where another has the same."""
    alike = {other for other, _ in tables if other.stem == file.stem}
    return file.stem if len(alike) == 1 else str(file.parent / file.stem)


def _grouped_by_number(
    tables: Tables, law: Law, request: FitRequest, said: list[str]
) -> tuple[dict[float, list[Curve]], list[str]]:
    found: Grouped = {}
    for file, table in tables:
        try:
            ((name, values),) = numbers_for(table, law).items()
            _gather(found, file, parts_by(table, name, values), request, said)
        except InputError as failure:
            said.append(str(failure))
    return {float(value): curves for value, curves in found.items()}, said


def _gather(found: Grouped, file: Path, parts: dict[float | str, Table], request: FitRequest, said: list[str]) -> None:
    """Add the curves of each part of a table, as far as the window and the cut go."""
    for value, part in parts.items():
        jobs, refused = fit_jobs([(file, _curves(part, request))], request)
        said += refused
        found.setdefault(value, []).extend(job.used for job in jobs)


def _curves(table: Table, request: FitRequest) -> list[Curve]:
    return curves_of(table, x=request.x, y=request.y, by=request.by, percent=request.percent)


def _name(tables: Tables) -> str:
    return tables[0][1].name if len(tables) == 1 else f"{len(tables)} tables"
