"""Lists every sweep of a database, so that a person finds names: what it is of, how it stands, what it says."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from budgets.errors import NotFoundError
from planner.store import open_store
from planner.store.sweeps import missing
from rlplan.reading.finals import Record, record_of, record_said
from rlplan.reading.row_choice import SortKey, chosen_names, ordered
from rlplan.reading.sweep_data import with_axes
from rlplan.reading.sweep_words import TrialChoice
from rlplan.reading.sweeps import STATES, ListedSweep, listed_sweeps, plans_without_sweep
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import Invocation, NextStep, next_steps
from rlplan.wording.numbers import aligned_hours, interval, plural, some_of, steps
from rlplan.wording.tables import Cells, Column, axes_column, table_of
from rlplan.wording.terminal import Canvas

SHOWN, NAMED = 14, 8  # sweeps, and plans, that fit one screen
WIDE = 100  # columns from which the policy, the seed and the time of its making are shown
COLUMNS = (
    "sweep",
    "plan",
    "workload",
    "policy",
    "seed",
    "state",
    "created_at",
    "trials",
    "spent_gpu_hours",
    "pilot_gpu_hours",
    "rollouts_per_prompt",
    "prompts_per_batch",
    "update_steps",
    "expected_score",
    "score_low",
    "score_high",
)
SORT_KEYS: dict[str, SortKey[ListedSweep]] = {
    "made": SortKey(lambda row: row.created_at, largest_first=True),
    "name": SortKey(lambda row: row.sweep),
    "score": SortKey(lambda row: row.expected_score, largest_first=True),
    "spent": SortKey(lambda row: row.spent_gpu_hours, largest_first=True),
}


def print_sweeps(format: Format, chosen: TrialChoice, invocation: Invocation) -> None:
    """Print all sweeps, the newest first, and the names of plans that no sweep has run."""
    with open_store(invocation.database, read_only=True) as store, store.read() as session:
        rows, unused = listed_sweeps(session, datetime.now(UTC)), plans_without_sweep(session)
        record = record_of(session)
    if not rows and not unused:
        raise NotFoundError(missing("sweep", None, []))
    states = chosen_names(chosen.status, "status", STATES)
    kept = [row for row in rows if not states or row.state in states]
    wanted = ordered(kept, chosen.sort or "made", SORT_KEYS, reverse=chosen.reverse)[: chosen.top]
    if format is Format.JSON:
        told = None if record is None else asdict(record) | {"typical_price": record.typical_price}
        print_json({"sweeps": [_data(row) for row in wanted], "plans_without_sweep": unused, "finals": told})
    elif format is Format.CSV:
        print_csv(COLUMNS, ({name: _data(row)[name] for name in COLUMNS} for row in wanted))
    else:
        shown = wanted if chosen.top or invocation.explain else wanted[:SHOWN]
        print_drawn(lambda canvas: _drawn(rows, shown, unused, record, canvas, invocation))


def _drawn(
    rows: Sequence[ListedSweep],
    wanted: Sequence[ListedSweep],
    unused: Sequence[str],
    record: Record | None,
    canvas: Canvas,
    invocation: Invocation,
) -> Iterator[Part]:
    if wanted:
        yield _table(wanted, canvas)
    elif rows:
        yield from canvas.lines("No sweep is what is asked for.")
    if wanted and len(wanted) < len(rows):
        yield from canvas.lines(f"{plural(len(rows) - len(wanted), 'more sweep')} not shown", "dim")
    if record is not None:
        yield from canvas.lines(record_said(record))
    if unused:
        yield from canvas.lines(f"Plans that no sweep has run: {some_of(unused, NAMED)}", "dim")
    if wanted:
        further = [NextStep(invocation.command("status", wanted[0].sweep), "how it stands")]
    else:
        further = [NextStep(invocation.command("rank", unused[-1]), "its rows, ranked")] if unused else []
    if further:
        yield from next_steps(further, canvas)


def _data(row: ListedSweep) -> dict[str, Any]:
    known = {name: getattr(row, name) for name in COLUMNS} | {"created_at": row.created_at.isoformat()}
    return with_axes(known | {"axes": row.axes})


def _table(rows: Sequence[ListedSweep], canvas: Canvas) -> Part:
    wide = canvas.width >= WIDE
    columns: Sequence[Column[ListedSweep]] = (
        Column("sweep", attrgetter("sweep"), Cells.NAMES),
        Column("plan", attrgetter("plan"), Cells.NAMES),
        Column("trains", attrgetter("workload"), Cells.NAMES),
        Column("policy", attrgetter("policy"), Cells.NAMES, shown=wide),
        Column("state", attrgetter("state"), Cells.NAMES),
        Column("trials", lambda row: f"{row.trials:,}", shown=wide),
        Column("GPU-hours", lambda row: f"{aligned_hours(row.spent_gpu_hours)}/{aligned_hours(row.pilot_gpu_hours)}"),
        Column("n", lambda row: steps(row.rollouts_per_prompt)),
        Column("B", lambda row: steps(row.prompts_per_batch)),
        Column("steps", lambda row: steps(row.update_steps), shown=wide),
        Column("expected score", lambda row: interval(row.expected_score, row.score_low, row.score_high)),
        axes_column(rows),
        Column("made (UTC)", lambda row: f"{row.created_at:%Y-%m-%d %H:%M}", Cells.NAMES, shown=wide),
    )
    return table_of(rows, columns, canvas)
