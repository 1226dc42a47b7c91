"""Lists the decisions of a sweep: what was done, to which trial, and why."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import InputError, UnknownNameError
from planner.store import open_store
from planner.store.schema import Decision, Trial
from planner.store.sweeps import sweep_named
from rlplan.reading.row_choice import chosen_names
from rlplan.wording.console import canvas_of, plain_table, print_csv, print_json, print_tables, tables_console
from rlplan.wording.formats import ACTIONS, Format

COLUMNS = ("number", "at", "action", "trial", "reason", "seen", "alternatives")
WIDE = 100  # columns from which the day is shown although all are of one
UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class DecisionChoice:
    """Which decisions are asked for; `since` is a time in UTC, or how long ago."""

    trial: str | None = None
    action: str | None = None
    since: str | None = None
    last: int | None = None


def print_decisions(database: str, sweep: str | None, chosen: DecisionChoice, format: Format) -> None:
    """Print the decisions of a sweep, by default the newest, of one trial or of all, oldest first."""
    since = None if chosen.since is None else moment(chosen.since, datetime.now(UTC))
    with open_store(database, read_only=True) as store, store.read() as session:
        row = sweep_named(session, sweep)
        name, decisions = row.name, _decisions(session, row.id, chosen, since)
    if format is Format.JSON:
        print_json({"sweep": name, "decisions": decisions})
    elif format is Format.CSV:
        packed = ("seen", "alternatives")
        print_csv(COLUMNS, (each | {key: json.dumps(each[key]) for key in packed} for each in decisions))
    else:
        _print_table(name, decisions)


def moment(text: str, now: datetime) -> datetime:
    """Read a time as a person types it: `30m` or `2h` for so long ago, or a date and time, which is UTC."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)", text.strip())
    try:
        if ago:
            return now - timedelta(seconds=float(ago[1]) * UNITS[ago[2]])
        read = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"--since '{text}' is no time: write how long ago, such as 30m, 2h or 1d, or a time in UTC, such as "
            f"'{now:%Y-%m-%d %H:%M}'"
        ) from error
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def _decisions(session: Session, sweep_id: int, chosen: DecisionChoice, since: datetime | None) -> list[dict[str, Any]]:
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
        .limit(chosen.last)
    )
    if chosen.trial is not None:
        names = session.scalars(select(Trial.name).where(Trial.sweep_id == sweep_id)).all()
        if chosen.trial not in names:
            raise UnknownNameError("trial", chosen.trial, names or ["none yet"])
        wanted = wanted.where(Trial.name == chosen.trial)
    if chosen.action is not None:
        taken = session.scalars(select(Decision.action).where(Decision.sweep_id == sweep_id).distinct())
        wanted = wanted.where(Decision.action.in_(chosen_names(chosen.action, "action", {*ACTIONS, *taken})))
    if since is not None:
        wanted = wanted.where(Decision.at >= since)
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in session.execute(wanted)]
    return [row | {"at": row["at"].isoformat()} for row in reversed(rows)]


def _print_table(name: str, decisions: Sequence[dict[str, Any]]) -> None:
    console = tables_console()
    if not decisions:
        print_tables(console, [f"{name} has no such decisions yet"])
        return
    paper = canvas_of(console)
    table = plain_table(["#"], ["time (UTC)", "action", "trial", "why"])
    for column in table.columns[1:4]:
        column.no_wrap = True
    one_day = paper.width < WIDE and len({each["at"][:10] for each in decisions}) == 1
    for each in decisions:
        at = each["at"][11 if one_day else 0 : 19].replace("T", " ")
        table.add_row(str(each["number"]), at, each["action"], each["trial"] or "", paper.spelled(each["reason"]))
    print_tables(console, [table])
