"""`rlplan rank`: the ranked allocations of a sweep or a plan, sorted and filtered as asked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from planner.store.results import RankedRow
from planner.view import TrialState
from rlplan.reading.rank_reading import Ranking, ranking
from rlplan.reading.row_choice import SortKey, axis_cells, axis_columns, chosen_names, conditions, fulfilling, ordered
from rlplan.reading.sweep_picture import Source
from rlplan.requests.options import one_name
from rlplan.requests.reading import RankRequest
from rlplan.wording.draw import ROWS, Canvas, Cells, Column, Invocation, NextStep, Part, next_steps, table_of
from rlplan.wording.numbers import UNKNOWN, aligned_hours, interval, moment, plural, probability
from rlplan.wording.row_columns import RANK, SIZE, axes_column

WIDE = 100  # columns from which learning rate and recipe are shown
STATES = (*(state.value for state in TrialState), "proposed")
SORT_KEYS: dict[str, SortKey[RankedRow]] = {
    "rank": SortKey(lambda row: row.rank),
    "score": SortKey(lambda row: row.expected_score, largest_first=True),
    "p-best": SortKey(lambda row: row.probability_best, largest_first=True),
    "spent": SortKey(lambda row: row.gpu_hours_spent, largest_first=True),
    "cost": SortKey(lambda row: row.gpu_hours_to_target),
    "n": SortKey(lambda row: row.rollouts_per_prompt),
    "b": SortKey(lambda row: row.prompts_per_batch),
    "m": SortKey(lambda row: row.update_steps),
}


def answer(asked: RankRequest) -> Ranking:
    """Return the rows that pass the filters, in the order asked for."""
    found = ranking(asked.db, one_name(asked.name, asked.sweep, "--sweep"), stored=asked.stored)
    chosen = chosen_rows(found.ranking, asked)
    return replace(found, ranking=tuple(chosen[: asked.top]), chosen=len(chosen), top=asked.top)


def chosen_rows(rows: Sequence[RankedRow], asked: RankRequest) -> list[RankedRow]:
    """Sort and filter rows."""
    states = chosen_names(asked.status, "status", STATES)
    selected = [row for row in rows if not states or row.status in states]
    return ordered(
        fulfilling(selected, conditions(asked.where), _columns(rows)), asked.sort, SORT_KEYS, reverse=asked.reverse
    )


def _columns(rows: Sequence[RankedRow]) -> dict[str, Callable[[RankedRow], Any]]:
    def on_axis(column: str) -> Callable[[RankedRow], Any]:
        return lambda row: axis_cells(row.axes).get(column)

    plain = ("rank", "rollouts_per_prompt", "prompts_per_batch", "update_steps", "learning_rate", "recipe", "status")
    axes = {column: on_axis(column) for column in axis_columns(row.axes for row in rows)}
    short = {column.removeprefix("axis_"): of for column, of in axes.items()}
    return short | axes | {name: attrgetter(name) for name in plain}


def parts(found: Ranking, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw a title, what the numbers mean, the rows, and how many are not among them."""
    counted = "one allocation" if found.allocations == 1 else plural(found.allocations, "allocation")
    shown = found.ranking if found.top or invocation.explain else found.ranking[:ROWS]
    when = {
        Source.NOW: "as they look now",
        Source.PROPOSED: "as proposed",
        Source.STORED: "as ranked so far" if found.so_far else "as ranked at its end",
    }[found.source]
    when += "" if found.made_at is None else f", {moment(found.made_at)}"
    title = f"{found.sweep} of {found.plan}, {found.status}: {counted} {when}"
    if found.sweep is None:
        title = f"{found.plan}: {counted} as proposed; no sweep has run them yet"
    yield from canvas.lines(title, "bold")
    yield from canvas.lines(_legend(found), "dim")
    yield ""
    if shown:
        yield ranked_table(shown, canvas)
    if not found.chosen:
        yield from canvas.lines(f"None of {counted} is what --status and --where ask for.", "dim")
    if len(shown) < found.chosen:
        more = f"{found.chosen - len(shown):,} more rows: --top {found.chosen}, or --format csv"
        yield from canvas.lines(more, "dim")
    if 0 < found.chosen < found.allocations:
        yield from canvas.lines(f"{found.chosen:,} of {counted} are what --status and --where ask for", "dim")
    further = [] if len(shown) == found.chosen else [invocation.explained("every row")]
    yield from next_steps([_next(found, invocation), *further], canvas)


def _next(found: Ranking, invocation: Invocation) -> NextStep:
    """Name what this ranking is for: the plan that it heads, or the answer that rests on it."""
    if found.sweep is None:
        return invocation.step("preview", found.plan, "simulates its pilots")
    if found.source is Source.PROPOSED:
        return invocation.step("status", found.sweep, "how its pilots stand")
    return invocation.step("recommend", found.sweep, "which one to run, and how sure that is")


def _legend(found: Ranking) -> str:
    final = "Steps are those of a final run. " if any(row.gpu_hours_to_target for row in found.every) else ""
    if all(row.expected_score is None for row in found.every):
        return f"{final}No published study gives their scores: they are ranked by updates that carry signal."
    if found.source is Source.PROPOSED:
        return f"{final}Scores come from published studies, with 90 % intervals, until pilots measure them."
    return f"{final}Scores have 90 % intervals; spent is what the pilots took."


def ranked_table(rows: Sequence[RankedRow], canvas: Canvas) -> Part:
    """Lay out ranked allocations."""
    wide = canvas.width >= WIDE
    axes = axes_column(rows)
    columns: Sequence[Column[RankedRow]] = (
        RANK,
        *SIZE,
        Column("expected score", lambda row: interval(row.expected_score, row.score_low, row.score_high)),
        Column("P(best)", lambda row: probability(row.probability_best)),
        Column(
            "spent", lambda row: aligned_hours(row.gpu_hours_spent) if row.gpu_hours_spent else UNKNOWN, gives_way=True
        ),
        Column("to target", lambda row: aligned_hours(row.gpu_hours_to_target), shown=wide),
        Column("learning rate", lambda row: f"{row.learning_rate:.2g}", shown=wide),
        Column("status", attrgetter("status"), Cells.NAMES, gives_way=True),
        axes,
        Column("recipe", attrgetter("recipe"), Cells.TEXTS, shown=wide and not axes.shown),
    )
    return table_of(rows, columns, canvas, dim=lambda row: row.expected_score is None)
