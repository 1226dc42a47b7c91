"""`rlplan status --all`: every sweep of a database, what it is of, how it stands and what it says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter

from budgets.errors import NotFoundError
from planner.store import open_store
from planner.store.sweeps import missing
from rlplan.reading.finals import Record, record_of, record_text
from rlplan.reading.row_choice import SortKey, chosen_names, ordered
from rlplan.reading.sweep_words import TrialChoice
from rlplan.reading.sweeps import STATES, ListedSweep, listed_sweeps, plans_without_sweep
from rlplan.wording.answers import Answer
from rlplan.wording.columns import axes_column
from rlplan.wording.draw import Canvas, Cells, Column, Invocation, Part, next_steps, table_of
from rlplan.wording.frames import LISTED
from rlplan.wording.numbers import aligned_hours, interval, plural, some_of, steps

SHOWN, NAMED = 14, 8  # sweeps, and plans, that fit one screen
WIDE = 100  # columns from which the policy, the seed and the time of its making are shown
SORT_KEYS: dict[str, SortKey[ListedSweep]] = {
    "made": SortKey(lambda row: row.created_at, largest_first=True),
    "name": SortKey(lambda row: row.sweep),
    "score": SortKey(lambda row: row.expected_score, largest_first=True),
    "spent": SortKey(lambda row: row.spent_gpu_hours, largest_first=True),
}


@dataclass(frozen=True, repr=False)
class SweepList(Answer):
    """The sweeps that are asked for, how final runs went, and the names of plans that no sweep has run."""

    COLUMNS = LISTED
    ROWS = "sweeps"

    sweeps: tuple[ListedSweep, ...]
    plans_without_sweep: Sequence[str]
    finals: Record | None
    known: int = field(repr=False)  # sweeps that there are
    all_of_them: bool = field(repr=False)  # are wanted, however many

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw those that fit one screen, unless so many or all are asked for."""
        wanted = self.sweeps if self.all_of_them or invocation.explain else self.sweeps[:SHOWN]
        if wanted:
            yield _table(wanted, canvas)
        elif self.known:
            yield from canvas.lines("No sweep is what is asked for.")
        if wanted and len(wanted) < self.known:
            yield from canvas.lines(f"{plural(self.known - len(wanted), 'more sweep')} not shown", "dim")
        if self.finals is not None:
            yield from canvas.lines(record_text(self.finals))
        if self.plans_without_sweep:
            yield from canvas.lines(f"Plans that no sweep has run: {some_of(self.plans_without_sweep, NAMED)}", "dim")
        if wanted:
            further = [invocation.step("status", wanted[0].sweep, "how it stands")]
        else:
            names = self.plans_without_sweep[-1:]
            further = [invocation.step("rank", name, "its rows, ranked") for name in names]
        if further:
            yield from next_steps(further, canvas)


def listed_in(database: str, chosen: TrialChoice) -> SweepList:
    """Return all sweeps, the newest first."""
    with open_store(database, read_only=True) as store, store.read() as session:
        rows, unused = listed_sweeps(session, datetime.now(UTC)), plans_without_sweep(session)
        record = record_of(session)
    if not rows and not unused:
        raise NotFoundError(missing("sweep", None, []))
    states = chosen_names(chosen.status, "status", STATES)
    selected = [row for row in rows if not states or row.state in states]
    wanted = ordered(selected, chosen.sort or "made", SORT_KEYS, reverse=chosen.reverse)[: chosen.top]
    return SweepList(tuple(wanted), unused, record, len(rows), bool(chosen.top))


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
