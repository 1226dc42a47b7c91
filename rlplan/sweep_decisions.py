"""Lists the decisions of a sweep: what was done, to which trial, and why."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import UnknownNameError
from planner.store import open_store
from planner.store.schema import Decision, Trial
from planner.store.sweeps import sweep_named
from rlplan.options import Format
from rlplan.sweep_printing import paper_of, plain_table, print_csv, print_json, print_tables, tables_console

COLUMNS = ("number", "at", "action", "trial", "reason", "seen", "alternatives")


def print_decisions(database: str, sweep: str | None, trial: str | None, last: int | None, format: Format) -> None:
    """Print the decisions of a sweep, by default the newest, of one trial or of all, oldest first."""
    with open_store(database, read_only=True) as store, store.read() as session:
        row = sweep_named(session, sweep)
        name, decisions = row.name, _decisions(session, row.id, trial, last)
    if format is Format.JSON:
        print_json({"sweep": name, "decisions": decisions})
    elif format is Format.CSV:
        packed = ("seen", "alternatives")
        print_csv(COLUMNS, (each | {key: json.dumps(each[key]) for key in packed} for each in decisions))
    else:
        _print_table(name, decisions)


def _decisions(session: Session, sweep_id: int, trial: str | None, last: int | None) -> list[dict[str, Any]]:
    wanted = (
        select(
            Decision.number,
            Decision.at,
            Decision.action,
            Trial.name,
            Decision.reason,
            Decision.seen,
            Decision.alternatives,
        )
        .outerjoin(Trial, Trial.id == Decision.trial_id)
        .where(Decision.sweep_id == sweep_id)
        .order_by(Decision.number.desc())
        .limit(last)
    )
    if trial is not None:
        names = session.scalars(select(Trial.name).where(Trial.sweep_id == sweep_id)).all()
        if trial not in names:
            raise UnknownNameError("trial", trial, names or ["none yet"])
        wanted = wanted.where(Trial.name == trial)
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in session.execute(wanted)]
    return [row | {"at": row["at"].isoformat()} for row in reversed(rows)]


def _print_table(name: str, decisions: Sequence[dict[str, Any]]) -> None:
    console = tables_console()
    if not decisions:
        print_tables(console, [f"{name} has no such decisions yet"])
        return
    paper = paper_of(console)
    table = plain_table(["#"], ["time (UTC)", "action", "trial", "why"])
    for column in table.columns[1:4]:
        column.no_wrap = True
    for each in decisions:
        at = each["at"][:19].replace("T", " ")
        table.add_row(str(each["number"]), at, each["action"], each["trial"] or "", paper.spelled(each["reason"]))
    print_tables(console, [table])
