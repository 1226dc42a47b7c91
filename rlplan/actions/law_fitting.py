"""What `rlplan fit --law` and `rlplan compare` do and answer: tables into groups of curves, then the law."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from budgets.errors import InputError
from planner.curves.comparison import ComparedRecipe, Comparison, Difference, compare
from planner.curves.curve import Curve
from planner.curves.files import Table, read_table
from planner.curves.files.assembly import curves_of
from planner.curves.files.names import resolve
from planner.curves.files.tabular import paths_of, table_in_memory
from planner.curves.gain_curve import CannotTellError, LawDraws, draw_power_law, draw_sigmoid
from planner.curves.laws import Law, averaged, draw_group_law, group_column, parts_by
from planner.metrics import Interval
from rlplan.actions.fit_window import require_sound, targets_of
from rlplan.actions.fitting import fit_jobs, gathered
from rlplan.requests.foreign import CompareRequest, FitRequest
from rlplan.wording.answers import Several
from rlplan.wording.documents import Key, Read
from rlplan.wording.numbers import interval
from rlplan.wording.row_columns import columns

Split = Callable[[Path, Table], dict[float | str, Table]]


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
    """What the points of a curve or a table say of a law: draws of it, or None where they are too few, with doubts."""

    file: Path
    law: Law = field(repr=False)
    fitted: Curve = field(repr=False)
    draws: LawDraws | None = field(repr=False)
    level: float = field(repr=False)
    predictions: tuple[LawPrediction, ...]
    evidence: tuple[str, ...] = ()  # why the points cannot tell; nothing where they do

    name = Key[str]("fitted.name", "The name of the curve or the table.")
    points = Key[int]("fitted.x.size")
    identified = Key[bool](lambda fit: not fit.evidence, "Whether the points tell what the law is.")
    parameters = Key[Mapping[str, Interval]](
        lambda fit: fit.draws.intervals(fit.level) if fit.draws else {},
        "By the literature's names, each with an interval.",
    )
    noise_sd = Key[float | None](lambda fit: fit.draws and fit.draws.noise_sd)
    notes = Key[Sequence[str]](
        lambda fit: (*fit.fitted.notes, *(fit.draws.notes if fit.draws else ())),
        "What was done to the points, and what to mind.",
    )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each parameter and each prediction; one of nothing where there is none."""
        of: dict[str, Any] = {"law": self.law.value, "name": self.name, "level": self.level}
        of["identified"] = str(self.identified).lower()
        for name, value in self.parameters.items():
            yield of | {"what": name} | asdict(value)
        for prediction in self.predictions:
            row = asdict(prediction)
            yield of | {"what": f"prediction {row.pop('series')}".rstrip()} | row
        if self.draws is None:
            yield of

    def __repr__(self) -> str:
        text = ", ".join(f"{name}={interval(p.median, p.low, p.high)}" for name, p in self.parameters.items())
        return f"<LawFit of {self.name}: {'' if self.identified else 'cannot tell; '}{text}>"


@dataclass(frozen=True, repr=False)
class FittedLaws(Several[LawFit]):
    """The fits of a law: one for each curve, or one for all where the law goes across runs."""

    DRAWN = "rlplan.commands.fit_law"
    COLUMNS = columns("law name identified what x median low high level")
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

    DRAWN = "rlplan.commands.compare"
    COLUMNS = columns("""
        name rank tie_group runs probability_best probability_tied A_median A_low A_high B_median B_low B_high
        C_mid_median C_mid_low C_mid_high
    """)
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


def fit_law(request: FitRequest) -> FittedLaws:
    """Fit the law of a request: to every curve, or where it goes across runs, to all tables together."""
    require_sound(request)
    tables, errors = _tables(request.files)
    law, fits = Law(str(request.law)), []
    if law is not Law.GROUP_SIZE:
        draw = draw_sigmoid if law is Law.SIGMOID else draw_power_law
        read, unread = gathered(tables, lambda member: (member[0], _curves(member[1], request)))
        jobs, refused = fit_jobs(read, request)
        errors += [*unread, *refused]
        fits = [_fitted(request, job.file, job.used, job.whole, lambda curve: draw(averaged(curve))) for job in jobs]
    elif groups := _grouped(tables, lambda _, table: parts_by(table, group_column(table)), request, errors):
        name = tables[0][1].name if len(tables) == 1 else f"{len(tables)} tables"
        if broken := [n for n in groups if not float(n).is_integer()]:
            raise InputError(f"{broken[0]:g} rollouts per prompt in '{name}': give whole numbers")
        runs = [run for curves in groups.values() for run in curves]
        notes = tuple(dict.fromkeys(note for run in runs for note in run.notes))
        points = replace(Curve.joined(runs), name=name, notes=notes)
        by_number = {int(n): [averaged(run) for run in curves] for n, curves in groups.items()}
        fits = [_fitted(request, tables[0][0], points, points, lambda _: draw_group_law(by_number))]
    if not fits:
        raise InputError("; ".join(errors) or "there is nothing to fit: give at least one table")
    return FittedLaws(law, request.level, tuple(fits), failed=tuple(errors))


def _fitted(request: FitRequest, file: Path, used: Curve, whole: Curve, draw: Callable[[Curve], LawDraws]) -> LawFit:
    """Draw a law, and what it predicts where the request says; or return why it cannot be drawn."""
    law = Law(str(request.law))
    try:
        draws = draw(used)
    except CannotTellError as reason:
        return LawFit(file, law, used, None, request.level, (), (str(reason),))
    x = np.array([target.of(whole, used) for target in targets_of(request)])
    series = "n*" if law is Law.GROUP_SIZE else ""  # of the score where there is none
    rows = zip(x, *draws.at(x, request.level), strict=True)
    predictions = tuple(LawPrediction(series, *map(float, row)) for row in rows)
    return LawFit(file, law, used, draws, request.level, predictions, draws.doubts)


def compare_recipes(request: CompareRequest) -> RecipeComparison:
    """Compare what a column tells apart, or file with file; a table that is of no use hides no other."""
    by, columns = request.by, ("x", "y", "percent", "fit_until", "level")
    curves_request = FitRequest(request.files, **{name: getattr(request, name) for name in columns})
    require_sound(curves_request)
    tables, errors = _tables(request.files)

    def split(file: Path, table: Table) -> dict[float | str, Table]:
        if by is not None:
            return parts_by(table, resolve(by, table, "by", text=True))
        # By its stem, and by its folder too where another has the same.
        alone = {other for other, _ in tables if other.stem == file.stem} == {file}
        return {file.stem if alone else str(file.parent / file.stem): table}

    grouped = _grouped(tables, split, curves_request, errors)
    if not grouped:
        raise InputError("; ".join(errors) or "there is no curve to compare: give two files")
    recipes = {value if isinstance(value, str) else f"{by}={value:g}": curves for value, curves in grouped.items()}
    if len(recipes) < 2:
        only = f"all curves are of {next(iter(recipes))}"
        if by is None:
            raise InputError(
                f"{only}: give two files, or the column that tells the recipes of one apart by {{by}}", by=None
            )
        raise InputError(f"{{by}}: {only}; add those of another, or name another column", by=by)
    files = tuple(dict.fromkeys(file for file, _ in tables))
    return RecipeComparison(compare(recipes, level=request.level), files, failed=tuple(errors))


def _tables(files: Any) -> tuple[list[tuple[Path, Table]], list[str]]:
    """Read every column of some files; one that fails does not hide the others."""
    if (table := table_in_memory(files)) is not None:
        return [(Path(table.name), table)], []
    read, failures = gathered(paths_of(files), lambda file: [(file, table) for table in read_table(file)])
    return [member for tables in read for member in tables], failures


def _grouped(
    tables: Sequence[tuple[Path, Table]], split: Split, request: FitRequest, errors: list[str]
) -> dict[float | str, list[Curve]]:
    """Return the curves of each part of all tables, as far as the window and the cut go; what failed joins `errors`."""
    grouped: dict[float | str, list[Curve]] = {}
    split_tables, unread = gathered(tables, lambda member: (member[0], split(*member)))
    errors += unread
    for file, parts in split_tables:
        read, unread = gathered(parts.items(), lambda part: (part[0], _curves(part[1], request)))
        errors += unread
        for value, curves in read:
            jobs, refused = fit_jobs([(file, curves)], request)
            errors += refused
            grouped.setdefault(value, []).extend(job.used for job in jobs)
    return grouped


def _curves(table: Table, request: FitRequest) -> list[Curve]:
    return curves_of(table, x=request.x, y=request.y, by=request.by, percent=request.percent)
