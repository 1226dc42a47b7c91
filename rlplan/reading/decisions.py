"""The decisions of a sweep, as every face reads them: what was done, to which trial, why, and what it rested on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import InputError, UnknownNameError
from planner.store.schema import Decision as Row
from planner.store.schema import Trial
from rlplan.reading.row_choice import chosen_names
from rlplan.wording.formats import ACTIONS

UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision."""

    number: int
    at: datetime
    action: str
    trial: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class WholeDecision(Decision):
    """One decision with what it rested on, which is only read where it is asked for."""

    seen: Mapping[str, Any]
    alternatives: Sequence[Any]


def decisions(session: Session, sweep_id: int, *, after: int = 0) -> tuple[WholeDecision, ...]:
    """Return the decisions of a sweep after a number, oldest first, each with what it rested on."""
    return _read_whole(session, _whole(sweep_id).where(Row.number > after).order_by(Row.number))


def last_decisions(session: Session, sweep_id: int, most: int) -> tuple[Decision, ...]:
    """Return the last decisions of a sweep, oldest first, without what they rested on."""
    return _read(session, _plain(sweep_id).order_by(Row.number.desc()).limit(most))[::-1]


def decisions_of_trial(session: Session, sweep_id: int, trial_id: int) -> tuple[Decision, ...]:
    """Return the decisions about a trial, oldest first, without what they rested on."""
    return _read(session, _plain(sweep_id).where(Row.trial_id == trial_id).order_by(Row.number))


def chosen_decisions(
    session: Session,
    sweep_id: int,
    now: datetime,
    trial: str | None = None,
    action: str | None = None,
    since: str | None = None,
    last: int | None = None,
) -> tuple[WholeDecision, ...]:
    """Return the decisions that are asked for, oldest first, each with what it rested on.

    `since` is a time in UTC, or how long ago.
    """
    wanted = _whole(sweep_id).order_by(Row.number.desc()).limit(last)
    if trial is not None:
        names = session.scalars(select(Trial.name).where(Trial.sweep_id == sweep_id)).all()
        if trial not in names:
            raise UnknownNameError("trial", trial, names or ["none yet"])
        wanted = wanted.where(Trial.name == trial)
    if action is not None:
        taken = session.scalars(select(Row.action).where(Row.sweep_id == sweep_id).distinct())
        wanted = wanted.where(Row.action.in_(chosen_names(action, "action", {*ACTIONS, *taken})))
    if since is not None:
        wanted = wanted.where(Row.at >= moment(since, now))
    return _read_whole(session, wanted)[::-1]


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


def _plain(sweep_id: int) -> Any:
    wanted = select(Row.number, Row.at, Row.action, Trial.name, Row.reason)
    return wanted.outerjoin(Trial, Trial.id == Row.trial_id).where(Row.sweep_id == sweep_id)


def _whole(sweep_id: int) -> Any:
    return _plain(sweep_id).add_columns(Row.seen, Row.alternatives)


def _read(session: Session, wanted: Any) -> tuple[Decision, ...]:
    return tuple(Decision(*row) for row in session.execute(wanted))


def _read_whole(session: Session, wanted: Any) -> tuple[WholeDecision, ...]:
    return tuple(WholeDecision(*row) for row in session.execute(wanted))
