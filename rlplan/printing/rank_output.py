"""Prints ranked allocations: sorted and filtered as asked, as a table, JSON or CSV."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from planner.store.records import RankedRow
from planner.trials import TrialState
from rlplan.reading.rank_reading import Ranking, ranking
from rlplan.reading.row_choice import SortKey, axis_cells, axis_columns, chosen_names, conditions, fulfilling, ordered
from rlplan.reading.sweep_data import RANKING_COLUMNS, with_axes
from rlplan.reading.sweep_picture import Source
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import ROWS, Invocation, NextStep, next_steps
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, interval, moment, probability
from rlplan.wording.tables import RANK, SIZE, Cells, Column, axes_column, table_of
from rlplan.wording.terminal import Canvas, tell

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


@dataclass(frozen=True, slots=True)
class RankRequest:
    """What is asked of `rlplan rank`."""

    name: str | None = None
    top: int | None = None
    status: str | None = None
    sort: str | None = None
    reverse: bool = False
    where: str | None = None
    stored: bool = False


def print_ranking(request: RankRequest, format: Format, invocation: Invocation) -> None:
    """Print the ranking of a sweep or a plan."""
    found = ranking(invocation.database, request.name, stored=request.stored)
    wanted = chosen_rows(found.rows, request)
    if found.note:
        tell(f"{found.sweep}: {found.note}")
    if format is Format.TABLE:
        print_drawn(lambda canvas: _report(found, wanted, request, invocation, canvas))
        return
    shown = wanted[: request.top]
    if format is Format.JSON:
        print_json(ranking_data(found, shown))
    else:
        axes = axis_columns(row.axes for row in found.rows)
        own = {"plan": found.plan, "sweep": found.sweep}
        values = ({name: getattr(row, name) for name in RANKING_COLUMNS} | axis_cells(row.axes) for row in shown)
        print_csv((*own, *RANKING_COLUMNS, *axes), (own | each for each in values))


def chosen_rows(rows: Sequence[RankedRow], request: RankRequest) -> list[RankedRow]:
    """Return the rows that pass the filters, in the order asked for."""
    states = chosen_names(request.status, "status", STATES)
    kept = [row for row in rows if not states or row.status in states]
    return ordered(
        fulfilling(kept, conditions(request.where), _columns(rows)), request.sort, SORT_KEYS, reverse=request.reverse
    )


def ranking_data(found: Ranking, rows: Sequence[RankedRow]) -> dict[str, Any]:
    """Return the document that `rank --format json` prints."""
    return {
        "plan": found.plan,
        "sweep": found.sweep,
        "status": None if found.status is None else found.status.value,
        "source": found.source.value,
        "made_at": None if found.made_at is None else found.made_at.isoformat(),
        "so_far": found.so_far,
        "note": found.note,
        "allocations": len(found.rows),
        "ranking": [with_axes(asdict(row)) for row in rows],
    }


def _columns(rows: Sequence[RankedRow]) -> dict[str, Callable[[RankedRow], Any]]:
    def on_axis(column: str) -> Callable[[RankedRow], Any]:
        return lambda row: axis_cells(row.axes).get(column)

    plain = ("rank", "rollouts_per_prompt", "prompts_per_batch", "update_steps", "learning_rate", "recipe", "status")
    axes = {column: on_axis(column) for column in axis_columns(row.axes for row in rows)}
    short = {column.removeprefix("axis_"): of for column, of in axes.items()}
    return short | axes | {name: attrgetter(name) for name in plain}


def _report(
    found: Ranking, wanted: Sequence[RankedRow], request: RankRequest, invocation: Invocation, canvas: Canvas
) -> Iterator[Part]:
    rows = request.top or (len(wanted) if invocation.explain else ROWS)
    yield from canvas.lines(_title(found), "bold")
    yield from canvas.lines(_legend(found), "dim")
    yield ""
    shown = wanted[:rows]
    if shown:
        yield _table(shown, canvas)
    for line in _hidden(found, wanted, shown):
        yield from canvas.lines(line, "dim")
    further = [] if len(shown) == len(wanted) else [invocation.explained("every row")]
    yield from next_steps([_next(found, invocation), *further], canvas)


def _next(found: Ranking, invocation: Invocation) -> NextStep:
    """Name what this ranking is for: the plan that it heads, or the answer that rests on it."""
    if found.sweep is None:
        return NextStep(invocation.command("preview", found.plan), "simulates its pilots")
    if found.source is Source.PROPOSED:
        return NextStep(invocation.command("status", found.sweep), "how its pilots stand")
    return NextStep(invocation.command("recommend", found.sweep), "which one to run, and how sure that is")


def _title(found: Ranking) -> str:
    if found.sweep is None:
        return f"{found.plan}: {_counted(found)} as proposed; no sweep has run them yet"
    when = {
        Source.NOW: "as they look now",
        Source.PROPOSED: "as proposed",
        Source.STORED: "as ranked so far" if found.so_far else "as ranked at its end",
    }[found.source]
    when += "" if found.made_at is None else f", {moment(found.made_at)}"
    return f"{found.sweep} of {found.plan}, {found.status}: {_counted(found)} {when}"


def _counted(found: Ranking) -> str:
    return "one allocation" if len(found.rows) == 1 else f"{len(found.rows):,} allocations"


def _legend(found: Ranking) -> str:
    dearest = max((row.gpu_hours_to_target for row in found.rows), default=0.0)
    final = f"Steps are those of a final run of up to {hours(dearest)} GPU-hours. " if dearest else ""
    if all(row.expected_score is None for row in found.rows):
        return f"{final}No published study gives their scores: they are ranked by updates that carry signal."
    if found.source is Source.PROPOSED:
        return f"{final}Scores come from published studies, with 90 % intervals, until pilots measure them."
    return f"{final}Scores have 90 % intervals; spent is what the pilots took."


def _table(rows: Sequence[RankedRow], canvas: Canvas) -> Part:
    wide = canvas.width >= WIDE
    axes = axes_column(rows)
    columns: Sequence[Column[RankedRow]] = (
        RANK,
        *SIZE,
        Column("expected score", lambda row: interval(row.expected_score, row.score_low, row.score_high)),
        Column("P(best)", lambda row: probability(row.probability_best)),
        Column(
            "spent",
            lambda row: aligned_hours(row.gpu_hours_spent) if row.gpu_hours_spent else UNKNOWN,
            gives_way=True,
        ),
        Column("to target", lambda row: aligned_hours(row.gpu_hours_to_target), shown=wide),
        Column("learning rate", lambda row: f"{row.learning_rate:.2g}", shown=wide),
        Column("status", attrgetter("status"), Cells.NAMES, gives_way=True),
        axes,
        Column("recipe", attrgetter("recipe"), Cells.TEXTS, shown=wide and not axes.shown),
    )
    return table_of(rows, columns, canvas, dim=lambda row: row.expected_score is None)


def _hidden(found: Ranking, wanted: Sequence[RankedRow], shown: Sequence[RankedRow]) -> Iterator[str]:
    if not wanted:
        yield f"None of {_counted(found)} is what --status and --where ask for."
        return
    if len(shown) < len(wanted):
        yield f"{len(wanted) - len(shown):,} more rows: --top {len(wanted)}, or --format csv"
    if len(wanted) < len(found.rows):
        yield f"{len(wanted):,} of {_counted(found)} are what --status and --where ask for"
