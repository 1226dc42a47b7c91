"""`rlplan rank`: the ranked allocations of a sweep or a plan, sorted and filtered as asked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from budgets.errors import InputError
from planner.store.results import RankedRow
from planner.view import TrialState
from rlplan.reading.ranked import Ranking, ranking
from rlplan.reading.row_choice import SortKey, axis_cells, axis_columns, chosen_names, conditions, fulfilling, ordered
from rlplan.requests.results import RankRequest

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


def answer(request: RankRequest) -> Ranking:
    """Return the rows that pass the filters, in the order asked for."""
    if request.name is not None and request.sweep is not None and request.name != request.sweep:
        raise InputError(f"'{request.name}' and --sweep '{request.sweep}' are both given: leave one of them out")
    ranked = ranking(request.db, request.name or request.sweep, stored=request.stored)
    chosen = chosen_rows(ranked.ranking, request)
    return replace(ranked, ranking=tuple(chosen[: request.top]), chosen=len(chosen), top=request.top)


def chosen_rows(rows: Sequence[RankedRow], request: RankRequest) -> list[RankedRow]:
    """Sort and filter rows."""
    states = chosen_names(request.status, "status", STATES)
    selected = [row for row in rows if not states or row.status in states]
    return ordered(
        fulfilling(selected, conditions(request.where), _columns(rows)),
        request.sort,
        SORT_KEYS,
        reverse=request.reverse,
    )


def _columns(rows: Sequence[RankedRow]) -> dict[str, Callable[[RankedRow], Any]]:
    def on_axis(column: str) -> Callable[[RankedRow], Any]:
        return lambda row: axis_cells(row.axes).get(column)

    plain = ("rank", "rollouts_per_prompt", "prompts_per_batch", "update_steps", "learning_rate", "recipe", "status")
    axes = {column: on_axis(column) for column in axis_columns(row.axes for row in rows)}
    short = {column.removeprefix("axis_"): of for column, of in axes.items()}
    return short | axes | {name: attrgetter(name) for name in plain}
