"""Lists the decisions of a sweep: what was done, to which trial, and why."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter

from planner.store import open_store
from planner.store.sweeps import sweep_named
from rlplan.reading.decisions import Decision, DecisionChoice, chosen_decisions, moment
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.tables import Cells, Column, table_of
from rlplan.wording.terminal import Canvas

COLUMNS = ("number", "at", "action", "trial", "reason", "seen", "alternatives")
WIDE = 100  # columns from which the day is shown although all are of one


def print_decisions(database: str, sweep: str | None, chosen: DecisionChoice, format: Format) -> None:
    """Print the decisions of a sweep, by default the newest, of one trial or of all, oldest first."""
    now = datetime.now(UTC)
    if chosen.since is not None:
        moment(chosen.since, now)  # refused before anything is read
    with open_store(database, read_only=True) as store, store.read() as session:
        row = sweep_named(session, sweep)
        name, decisions = row.name, chosen_decisions(session, row.id, chosen, now)
    documents = [each.document() for each in decisions]
    if format is Format.JSON:
        print_json({"sweep": name, "decisions": documents})
    elif format is Format.CSV:
        packed = ("seen", "alternatives")
        print_csv(COLUMNS, (each | {key: json.dumps(each[key]) for key in packed} for each in documents))
    else:
        print_drawn(lambda canvas: _drawn(name, decisions, canvas))


def _drawn(name: str, decisions: Sequence[Decision], canvas: Canvas) -> Iterator[Part]:
    if not decisions:
        yield f"{name} has no such decisions yet"
        return
    one_day = canvas.width < WIDE and len({each.at.date() for each in decisions}) == 1
    moment_format = "%H:%M:%S" if one_day else "%Y-%m-%d %H:%M:%S"
    columns: Sequence[Column[Decision]] = (
        Column("#", attrgetter("number")),
        Column("time (UTC)", lambda each: format(each.at, moment_format), Cells.NAMES),
        Column("action", attrgetter("action"), Cells.NAMES),
        Column("trial", lambda each: each.trial or "", Cells.NAMES),
        Column("why", attrgetter("reason"), Cells.TEXTS),
    )
    yield table_of(decisions, columns, canvas)
