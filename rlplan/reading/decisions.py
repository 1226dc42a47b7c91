"""The decisions of a sweep, as every face reads them: what was done, to which trial, why, and what it rested on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from budgets.errors import InputError, UnknownNameError
from planner.store.schema import Decision as Row
from planner.store.schema import Trial
from rlplan.reading.row_choice import chosen_names
from rlplan.wording.command_lines import ACTIONS

UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, with what it rested on."""

    number: int
    at: datetime
    action: str
    trial: str | None
    reason: str
    seen: Mapping[str, Any]
    alternatives: Sequence[Any]


def decisions_of(
    session: Session, sweep_id: int, *where: ColumnElement[bool], newest: int | None = None
) -> tuple[Decision, ...]:
    """Return the decisions of a sweep, oldest first: all of which so much holds, or the newest of them."""
    columns = (Row.number, Row.at, Row.action, Trial.name, Row.reason, Row.seen, Row.alternatives)
    query = select(*columns).outerjoin(Trial, Trial.id == Row.trial_id).where(Row.sweep_id == sweep_id, *where)
    rows = session.execute(query.order_by(Row.number.desc()).limit(newest))
    return tuple(Decision(*row) for row in rows)[::-1]


def chosen_decisions(
    session: Session,
    sweep_id: int,
    now: datetime,
    trial: str | None = None,
    action: str | None = None,
    since: str | None = None,
    last: int | None = None,
) -> tuple[Decision, ...]:
    """Return the decisions that are asked for, oldest first; `since` is a time in UTC, or how long ago."""
    where: list[ColumnElement[bool]] = []
    if trial is not None:
        names = session.scalars(select(Trial.name).where(Trial.sweep_id == sweep_id)).all()
        if trial not in names:
            raise UnknownNameError("trial", trial, names or ["none yet"])
        where.append(Trial.name == trial)
    if action is not None:
        actions = session.scalars(select(Row.action).where(Row.sweep_id == sweep_id).distinct())
        where.append(Row.action.in_(chosen_names(action, "action", {*ACTIONS, *actions})))
    if since is not None:
        where.append(Row.at >= moment(since, now))
    return decisions_of(session, sweep_id, *where, newest=last)


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
