"""What `rlplan fit --law` and `rlplan compare` do and answer: tables into groups of curves, then the law."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from budgets.errors import InputError
from planner.curves import laws
from planner.curves.comparison import ComparedRecipe, Comparison, Difference, compare
from planner.curves.curve import Curve
from planner.curves.families import Law
from planner.curves.reading import Table, read_table
from planner.curves.reading.assembly import curves_of
from planner.curves.reading.names import resolve
from planner.curves.reading.tabular import paths_of, table_in_memory
from planner.metrics import Interval
from rlplan.actions.fit_window import Target, require_sound, targets_of
from rlplan.actions.fitting import fit_jobs, gathered
from rlplan.requests.foreign import CompareRequest, FitRequest
from rlplan.wording.answers import Several
from rlplan.wording.documents import Key, Read
from rlplan.wording.frames import COMPARED, LAWS
from rlplan.wording.numbers import interval

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


@dataclass(frozen=True, repr=False)
class LawFit:
    """What a curve or a table says of a law, and what it predicts; `identified` is False where it cannot tell."""

    file: Path
    fit: laws.LawFit = field(repr=False)
    level: float = field(repr=False)
    predictions: tuple[LawPrediction, ...]

    name = Key[str]("fit.name", "The name of the curve or the table.")
    points = Key[int]("fit.points.x.size")
    identified = Key[bool]("fit.identified", "Whether the points tell what the law is.")
    evidence = Key[tuple[str, ...]]("fit.doubts", "Why the points cannot tell; nothing where they do.")
    parameters = Key[Mapping[str, Interval]](
        lambda each: each.fit.parameters(each.level), "By the literature's names, each with an interval."
    )
    noise_sd = Key[float | None](lambda each: each.fit.draws and each.fit.draws.noise_sd)
    notes = Read[Sequence[str]]("fit.notes", "What was done to the points, and what to mind.")
    lines = Key[Sequence[str]]("fit.notes", name="notes")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each parameter and each prediction; one of nothing where there is none."""
        of: dict[str, Any] = {"law": self.fit.law.value, "name": self.name, "level": self.level}
        of["identified"] = str(self.identified).lower()
        for name, value in self.parameters.items():
            yield of | {"what": name} | asdict(value)
        for prediction in self.predictions:
            row = asdict(prediction)
            yield of | {"what": f"prediction {row.pop('series')}".rstrip()} | row
        if self.fit.draws is None:
            yield of

    def __repr__(self) -> str:
        text = ", ".join(f"{name}={interval(p.median, p.low, p.high)}" for name, p in self.parameters.items())
        return f"<LawFit of {self.name}: {'' if self.identified else 'cannot tell; '}{text}>"


@dataclass(frozen=True, repr=False)
class FittedLaws(Several[LawFit]):
    """The fits of a law: one for each curve, or one for all where the law goes across runs."""

    DRAWN = "rlplan.answers.fit_law"
    COLUMNS = LAWS
    MEMBERS = "fits"

    of: Law = field(repr=False)
    level: float
    fits: tuple[LawFit, ...]

    law = Key[str]("of.value", "The law's name.")

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each parameter and each prediction of each fit."""
        return [row for each in self.fits for row in each.rows()]


@dataclass(frozen=True, repr=False)
class RecipeComparison(Several[ComparedRecipe]):
    """Recipes from the best to the worst."""

    DRAWN = "rlplan.answers.compare"
    COLUMNS = COMPARED
    MEMBERS = "found.recipes"

    found: Comparison
    files: tuple[Path, ...]

    difference = Read[Difference]("found.difference", "How far the first two differ, and what would settle it.")
    notes = Read[tuple[str, ...]]("found.notes", "What to mind.")

    @property
    def summary(self) -> str:
        """Its first sentence, however long its names are."""
        return " ".join(str(self).partition(".\n")[0].split()) + "."

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each recipe."""
        rows = []
        for recipe in self:
            row = asdict(recipe)
            parts = {name: row.pop(name) for name in ("A", "B", "C_mid")}
            rows.append(row | {f"{name}_{part}": x for name, values in parts.items() for part, x in values.items()})
        return rows

    @property
    def document(self) -> Comparison:
        """All of it."""
        return self.found


def tables_of(files: Any) -> tuple[list[tuple[Path, Table]], list[str]]:
    """Read every column of what is given; a file that fails does not hide the others."""
    if (table := table_in_memory(files)) is not None:
        return [(Path(table.name), table)], []
    found, failures = gathered(paths_of(files), lambda file: [(file, table) for table in read_table(file)])
    return [each for tables in found for each in tables], failures


def fit_law(asked: FitRequest) -> FittedLaws:
    """Fit the law that is asked for: to every curve, or where it goes across runs, to all tables together."""
    require_sound(asked)
    tables, errors = tables_of(asked.files)
    law, targets = Law(str(asked.law)), targets_of(asked)
    if law in (Law.SIGMOID, Law.POWER):
        read, unread = gathered(tables, lambda each: (each[0], _curves(each[1], asked)))
        jobs, refused = fit_jobs(read, asked)
        found = [(job.file, laws.fit_curve_law(law, job.used), job.whole) for job in jobs]
        errors += [*unread, *refused]
    elif tables:
        by_number = _grouped(tables, _by_number, asked, errors)
        grouped = {float(value): curves for value, curves in by_number.items()}
        name = tables[0][1].name if len(tables) == 1 else f"{len(tables)} tables"
        fit = laws.fit_group_law(name, grouped) if grouped else None
        found = [] if fit is None else [(tables[0][0], fit, fit.points)]
    else:
        found = []
    if not found:
        raise InputError("; ".join(errors) or "there is nothing to fit: give at least one table")
    fits = [LawFit(file, fit, asked.level, _predicted(fit, whole, targets, asked.level)) for file, fit, whole in found]
    return FittedLaws(law, asked.level, tuple(fits), failed=tuple(errors))


def _predicted(fit: laws.LawFit, whole: Curve, targets: Sequence[Target], level: float) -> tuple[LawPrediction, ...]:
    at = np.array([target.of(whole, fit.points) for target in targets])
    if fit.draws is None or not at.size:
        return ()
    return tuple(LawPrediction(fit.series, *map(float, row)) for row in zip(at, *fit.at(at, level), strict=True))


def compare_recipes(asked: CompareRequest) -> RecipeComparison:
    """Compare what a column tells apart, or file with file; a table that is of no use hides no other."""
    by, columns = asked.by, ("x", "y", "percent", "fit_until", "level")
    request = FitRequest(asked.files, **{name: getattr(asked, name) for name in columns})
    require_sound(request)
    tables, errors = tables_of(asked.files)

    def parts_of(file: Path, table: Table) -> dict[float | str, Table]:
        if by is None:
            # By its stem, and by its folder too where another has the same.
            alone = {other for other, _ in tables if other.stem == file.stem} == {file}
            return {file.stem if alone else str(file.parent / file.stem): table}
        name = resolve(by, table, "by", text=True)
        return laws.parts_by(table, name, table.text[name] if name in table.text else table.columns[name])

    found = _grouped(tables, parts_of, request, errors)
    if not found:
        raise InputError("; ".join(errors) or "there is no curve to compare: give two files")
    named = {value if isinstance(value, str) else f"{by}={value:g}": curves for value, curves in found.items()}
    if len(named) < 2:
        only = f"all curves are of {next(iter(named))}"
        if by is None:
            raise InputError(f"{only}: give two files, or the column that tells the recipes of one apart by --by")
        raise InputError(f"--by {by}: {only}; add those of another, or name another column")
    files = tuple(dict.fromkeys(file for file, _ in tables))
    return RecipeComparison(compare(named, level=asked.level), files, failed=tuple(errors))


def _by_number(_: Path, table: Table) -> dict[float | str, Table]:
    name = laws.group_column(table)
    return laws.parts_by(table, name, table.columns[name])


def _grouped(
    tables: Tables,
    parts_of: Callable[[Path, Table], dict[float | str, Table]],
    request: FitRequest,
    errors: list[str],
) -> Grouped:
    """Return the curves of each part of all tables, as far as the window and the cut go; what failed joins `errors`."""
    found: Grouped = {}
    parts, unread = gathered(tables, lambda each: (each[0], parts_of(*each)))
    errors += unread
    for file, by_value in parts:
        curves, unread = gathered(by_value.items(), lambda each: (each[0], _curves(each[1], request)))
        errors += unread
        for value, of_part in curves:
            jobs, refused = fit_jobs([(file, of_part)], request)
            errors += refused
            found.setdefault(value, []).extend(job.used for job in jobs)
    return found


def _curves(table: Table, request: FitRequest) -> list[Curve]:
    return curves_of(table, x=request.x, y=request.y, by=request.by, percent=request.percent)
