"""`rlplan decisions`: what was done in a sweep, to which trial, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter

from planner.store import open_store
from planner.store.sweeps import sweep_named
from rlplan.reading.decisions import Decision, chosen_decisions, moment
from rlplan.requests.results import DecisionsRequest
from rlplan.wording.answers import DECISIONS, Answer
from rlplan.wording.numbers import plural
from rlplan.wording.screen import (
    LEGIBLE,
    ROWS,
    Canvas,
    Cells,
    Column,
    Invocation,
    Part,
    next_steps,
    shortened,
    table_of,
)

BESIDE = 24  # signs of number, action and gaps beside a reason
LOST = 6  # signs at the end of a line, where a word does not fit
WIDE = 100  # columns from which the day is shown although all are of one


@dataclass(frozen=True)
class Decisions(Answer):
    """The decisions of a sweep that are asked for, the newest last."""

    COLUMNS = DECISIONS
    ROWS = "decisions"

    sweep: str
    decisions: tuple[Decision, ...]
    last: int | None = field(repr=False)

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw the last of them, or as many as are asked for with their reasons in full."""
        in_full = invocation.explain or self.last is not None
        shown = self.decisions if in_full else self.decisions[-ROWS:]
        if shown:
            part = "" if len(shown) == len(self.decisions) else f"the last {len(shown)} of "
            counted = plural(len(self.decisions), "decision")
            yield canvas.line(f"{self.sweep}: {part}{counted}, the newest last", "bold")
            one_day = canvas.width < WIDE and len({decision.at.date() for decision in shown}) == 1
            moment_format = "%H:%M:%S" if one_day else "%Y-%m-%d %H:%M:%S"
            beside = BESIDE + len(moment_format) + max(len(decision.trial or "") for decision in shown)
            signs = None if in_full else 2 * max(LEGIBLE, canvas.width - beside - LOST)
            columns: Sequence[Column[Decision]] = (
                Column("#", attrgetter("number")),
                Column("time (UTC)", lambda decision: format(decision.at, moment_format), Cells.NAMES),
                Column("action", attrgetter("action"), Cells.NAMES),
                Column("trial", lambda decision: decision.trial or "", Cells.NAMES),
                Column("why", lambda row: shortened(row.reason, signs) if signs else row.reason, Cells.TEXTS),
            )
            yield table_of(shown, columns, canvas)
        else:
            yield canvas.line(f"{self.sweep} has no such decisions yet", "bold")
        further = [] if in_full else [invocation.explained("all of them, with their reasons in full")]
        status = invocation.step("status", self.sweep, "how its trials stand")
        yield from next_steps([status, *further], canvas)


def answer(request: DecisionsRequest) -> Decisions:
    """Return the decisions of a sweep, by default the newest, of one trial or of all, oldest first."""
    now = datetime.now(UTC)
    if request.since is not None:
        moment(request.since, now)  # refused before anything is read
    with open_store(request.db, read_only=True) as store, store.read() as session:
        row = sweep_named(session, request.sweep)
        found = chosen_decisions(session, row.id, now, request.trial, request.action, request.since, request.last)
        return Decisions(row.name, found, request.last)
