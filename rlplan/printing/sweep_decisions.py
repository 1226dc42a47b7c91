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
from rlplan.wording.next_steps import ROWS, Invocation, NextStep, next_steps
from rlplan.wording.numbers import plural
from rlplan.wording.tables import LEGIBLE, Cells, Column, shortened, table_of
from rlplan.wording.terminal import Canvas

COLUMNS = ("number", "at", "action", "trial", "reason", "seen", "alternatives")
BESIDE = 24  # signs of number, action and gaps beside a reason
LOST = 6  # signs at the end of a line, where a word does not fit
WIDE = 100  # columns from which the day is shown although all are of one


def print_decisions(sweep: str | None, chosen: DecisionChoice, format: Format, invocation: Invocation) -> None:
    """Print the decisions of a sweep, by default the newest, of one trial or of all, oldest first."""
    now = datetime.now(UTC)
    if chosen.since is not None:
        moment(chosen.since, now)  # refused before anything is read
    with open_store(invocation.database, read_only=True) as store, store.read() as session:
        row = sweep_named(session, sweep)
        name, decisions = row.name, chosen_decisions(session, row.id, chosen, now)
    documents = [each.document() for each in decisions]
    if format is Format.JSON:
        print_json({"sweep": name, "decisions": documents})
    elif format is Format.CSV:
        packed = ("seen", "alternatives")
        print_csv(COLUMNS, (each | {key: json.dumps(each[key]) for key in packed} for each in documents))
    else:
        print_drawn(lambda canvas: _drawn(name, decisions, chosen, invocation, canvas))


def _drawn(
    name: str, decisions: Sequence[Decision], chosen: DecisionChoice, invocation: Invocation, canvas: Canvas
) -> Iterator[Part]:
    in_full = invocation.explain or chosen.last is not None
    shown = decisions if in_full else decisions[-ROWS:]
    if shown:
        part = "" if len(shown) == len(decisions) else f"the last {len(shown)} of "
        yield canvas.line(f"{name}: {part}{plural(len(decisions), 'decision')}, the newest last", "bold")
        yield _table(shown, None if in_full else 2, canvas)
    else:
        yield canvas.line(f"{name} has no such decisions yet", "bold")
    further = [] if in_full else [invocation.explained("all of them, with their reasons in full")]
    yield from next_steps([NextStep(invocation.command("status", name), "how its trials stand"), *further], canvas)


def _table(decisions: Sequence[Decision], lines: int | None, canvas: Canvas) -> Part:
    """Lay out decisions; their reasons have so many lines, or what they need."""
    one_day = canvas.width < WIDE and len({each.at.date() for each in decisions}) == 1
    moment_format = "%H:%M:%S" if one_day else "%Y-%m-%d %H:%M:%S"
    beside = BESIDE + len(moment_format) + max(len(each.trial or "") for each in decisions)
    signs = None if lines is None else lines * max(LEGIBLE, canvas.width - beside - LOST)
    columns: Sequence[Column[Decision]] = (
        Column("#", attrgetter("number")),
        Column("time (UTC)", lambda each: format(each.at, moment_format), Cells.NAMES),
        Column("action", attrgetter("action"), Cells.NAMES),
        Column("trial", lambda each: each.trial or "", Cells.NAMES),
        Column("why", lambda each: each.reason if signs is None else shortened(each.reason, signs), Cells.TEXTS),
    )
    return table_of(decisions, columns, canvas)
