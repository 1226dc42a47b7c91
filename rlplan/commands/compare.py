"""`rlplan compare`: how far recipes differ where their curves end, and what would settle it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from operator import attrgetter

from planner.curves.comparison import ComparedRecipe, Comparison
from planner.percent import percent
from rlplan.actions.law_fitting import RecipeComparison, compare_recipes
from rlplan.commands.fit import WIDE, compute, score
from rlplan.wording.draw import Canvas, Cells, Column, Invocation, NextStep, Part, listed, next_steps, table_of
from rlplan.wording.numbers import listing, plural

answer = compare_recipes


def parts(compared: RecipeComparison, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw how far the first two differ and what would settle that, and recipes from the best to the worst."""
    comparison = compared.found
    difference, settling = _difference(comparison)
    yield from canvas.lines(difference, "bold")
    yield from canvas.lines(settling)
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
        Column("C_mid", lambda each: "{} ({}–{})".format(*map(compute, astuple(each.C_mid)))),
        Column("equal", lambda each: f"{each.probability_tied:.2f}"),
        Column("best", lambda each: f"{each.probability_best:.2f}"),
        Column("B", lambda each: score(each.B.median), shown=wide),
        Column("group", attrgetter("tie_group"), shown=wide),
        Column("runs", attrgetter("runs"), shown=wide),
    )
    yield table_of(comparison.recipes, columns, canvas)
    yield from listed("Mind", comparison.notes)
    again = NextStep(shlex.join(["rlplan", "fit", *map(str, compared.files)]), "where each curve goes")
    yield from next_steps([again, invocation.with_flags("every number", "--format", "csv")], canvas)


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
