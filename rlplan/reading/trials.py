"""Finds the trial that a name stands for."""

import re
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import NotFoundError, suggest
from planner.store.schema import Sweep, Trial
from planner.store.sweeps import sweep_named
from rlplan.wording.numbers import some_of

NEAR = 3  # names that are offered for one that is not known


@dataclass(frozen=True, slots=True)
class TrialName:
    """A trial and its sweep; `also_in` are other sweeps with a trial of the same name."""

    trial: str
    sweep: str
    also_in: tuple[str, ...] = ()


def trial_named(session: Session, text: str) -> TrialName:
    """Return the trial that a text such as n8-B64-s0, its beginning, or sweep-1/n8 stands for.

    A name that several sweeps have is the newest's.
    """
    sweep, _, name = text.rpartition("/")
    query = select(Trial.name, Sweep.name).join(Sweep, Sweep.id == Trial.sweep_id).order_by(Sweep.id.desc(), Trial.id)
    if sweep:
        query = query.where(Sweep.id == sweep_named(session, sweep).id)
    rows = [(trial, of) for trial, of in session.execute(query)]
    folded = name.casefold()
    for matching in (
        [row for row in rows if row[0] == name],
        [row for row in rows if row[0].casefold().startswith(f"{folded}-")],
        [row for row in rows if row[0].casefold().startswith(folded)],
    ):
        if matching:
            trial, newest = matching[0]
            here = sorted({other for other, of in matching if of == newest})
            if len(here) > 1:
                raise NotFoundError(f"'{name}' begins the names of several trials of {newest}: {some_of(here, NEAR)}")
            return TrialName(trial, newest, tuple(of for other, of in matching if other == trial and of != newest))
    missing = f"there is no trial '{name}'{f' in {sweep}' if sweep else ''}"
    if (near := suggest(name, {trial for trial, _ in rows})).startswith("did"):
        raise NotFoundError(f"{missing}: {near}")
    raise NotFoundError(f"{missing}: `rlplan status {sweep}".rstrip() + "` lists the trials of a sweep")


def sweep_or_trial(session: Session, text: str | None) -> str | TrialName:
    """Return the name of a sweep, or the trial that a text stands for where no sweep is called so."""
    if text is None or session.scalar(select(Sweep.id).where(Sweep.name == text)) is not None:
        return sweep_named(session, text).name
    try:
        return trial_named(session, text)
    except NotFoundError:
        if "/" not in text and not re.match(r"n\d", text, re.IGNORECASE):
            sweep_named(session, text)  # which says what sweeps there are
        raise
