"""`rlplan compare`: how far recipes differ where their curves end, and what would settle it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.curves.comparison import ComparedRecipe, Comparison, Difference, compare
from planner.curves.files import Table
from planner.curves.files.names import resolve
from planner.curves.laws import parts_by
from planner.percent import percent
from rlplan.actions.curve_jobs import WIDE, compute, grouped_curves, require_sound, score, tables_of
from rlplan.requests.logs import CompareRequest, FitRequest
from rlplan.wording.answers import Read, Several, columns
from rlplan.wording.numbers import listing, plural
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, NextStep, Part, listed, next_steps, table_of


@dataclass(frozen=True, repr=False)
class RecipeComparison(Several[ComparedRecipe]):
    """Recipes from the best to the worst."""

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

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw how far the first two differ and what would settle that, and recipes from the best to the worst."""
        comparison = self.found
        difference, settling = _difference(comparison)
        yield from canvas.lines(difference, "bold")
        yield from canvas.lines(settling)
        first = comparison.recipes[0]
        if tied := [recipe.name for recipe in comparison.recipes[1:] if recipe.tie_group == first.tie_group]:
            near = f"within {comparison.margin:.2g} of {listing(tied)}"
            yield from canvas.lines(f"{first.name} is ranked first: it is {near}, and learns earlier.")
        yield ""
        wide = canvas.width >= WIDE
        columns: Sequence[Column[ComparedRecipe]] = (
            Column("recipe", attrgetter("name"), Cells.PATHS),
            Column("rank", attrgetter("rank")),
            Column("A", lambda recipe: f"{recipe.A.median:.3f} ({recipe.A.low:.3f}–{recipe.A.high:.3f})"),
            Column("C_mid", lambda recipe: "{} ({}–{})".format(*map(compute, astuple(recipe.C_mid)))),
            Column("equal", lambda recipe: f"{recipe.probability_tied:.2f}"),
            Column("best", lambda recipe: f"{recipe.probability_best:.2f}"),
            Column("B", lambda recipe: score(recipe.B.median), shown=wide),
            Column("group", attrgetter("tie_group"), shown=wide),
            Column("runs", attrgetter("runs"), shown=wide),
        )
        yield table_of(comparison.recipes, columns, canvas)
        yield from listed("Mind", comparison.notes)
        again = NextStep(shlex.join(["rlplan", "fit", *map(str, self.files)]), "where each curve goes")
        yield from next_steps([again, invocation.with_flags("every number", "--format", "csv")], canvas)


def answer(request: CompareRequest) -> RecipeComparison:
    """Compare what a column tells apart, or file with file; a table that is of no use hides no other."""
    by, columns = request.by, ("x", "y", "percent", "fit_until", "level")
    curves_request = FitRequest(request.files, **{name: getattr(request, name) for name in columns})
    require_sound(curves_request)
    tables, errors = tables_of(request.files)

    def split(file: Path, table: Table) -> dict[float | str, Table]:
        if by is not None:
            return parts_by(table, resolve(by, table, "by", text=True))
        # By its stem, and by its folder too where another has the same.
        alone = {other for other, _ in tables if other.stem == file.stem} == {file}
        return {file.stem if alone else str(file.parent / file.stem): table}

    grouped = grouped_curves(tables, split, curves_request, errors)
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


def _difference(comparison: Comparison) -> tuple[str, str]:
    """Say which of the first two ends higher, or that no difference can be measured; and what would settle it."""
    apart, margin = comparison.difference, comparison.margin
    low, high = apart.A.low, apart.A.high
    within = f"{percent(comparison.level)} interval {low:+.2g} to {high:+.2g}"
    if low > 0 or high < 0:
        one, other = (apart.first, apart.second) if low > 0 else (apart.second, apart.first)
        ends = f"{one} ends {abs(apart.A.median):.2g} higher than {other} ({within})."
    elif apart.settled:
        ends = f"{apart.first} and {apart.second} end within {margin:.2g} of each other ({within})."
    else:
        ends = f"No measurable difference between {apart.first} and {apart.second} ({within})."
    if apart.settled:
        return ends, "That is settled: more runs would not change it."
    ways = [f"{plural(apart.more_runs, 'more run')} of each"] if apart.more_runs is not None else []
    ways += [f"runs of {apart.longer:g} times the length"] if apart.longer is not None else []
    if not ways:
        return ends, "Neither 50 more runs of each nor runs of 8 times the length would settle it."
    return ends, f"What would settle it: {', or '.join(ways)}."
