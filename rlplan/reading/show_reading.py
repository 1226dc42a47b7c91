"""Reads everything about one trial: its configuration, its life, its money, its curve, what was decided about it."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import NotFoundError
from planner.store import open_store
from planner.store.schema import Decision as Row
from planner.store.schema import Fit, Segment, Sweep, Transition, Trial
from planner.store.sweeps import sweep_named
from planner.trials import TrialState
from rlplan.reading.decisions import Decision, decisions_of
from rlplan.reading.sweep_picture import Picture, ScoreData, SegmentRow, TrialRow
from rlplan.reading.sweep_reading import read_picture, segments_of, without_variables
from rlplan.wording.answers import Answer
from rlplan.wording.documents import Key, View
from rlplan.wording.frames import SCORES
from rlplan.wording.numbers import some_of


@dataclass(frozen=True, slots=True)
class Move:
    """A change of a trial's state."""

    at: datetime
    from_state: TrialState | None
    to_state: TrialState
    reason: str


@dataclass(frozen=True, repr=False)
class Sheet(Answer):
    """Everything about one trial; its rows are the scores that count."""

    DRAWN = "rlplan.answers.show"
    COLUMNS = SCORES

    picture: Picture  # of its sweep
    row: TrialRow
    recipe: str
    config: Mapping[str, Any]
    checkpoint: str | None
    fitted_at: datetime | None
    fitted_upto_gpu_hours: float | None
    moves: tuple[Move, ...]
    segments: tuple[SegmentRow, ...]
    decisions: tuple[Decision, ...]
    also_in: tuple[str, ...] = ()  # other sweeps with a trial of that name

    @property
    def stderr(self) -> Sequence[str]:
        """Where there are others of that name."""
        others = ", ".join(self.also_in)
        return (f"{self.row.name} is of {self.picture.sweep}; --sweep shows that of {others}",) if others else ()

    @property
    def listed(self) -> Sequence[Any]:
        """Its scores."""
        return list(map(ScoreData, self.row.scores))

    @property
    def document(self) -> "SheetData":
        """All of it."""
        return SheetData(self.row, self)


@dataclass(frozen=True)
class SheetData(View[TrialRow]):
    """A trial with all that there is of it."""

    WHOLE = TrialRow
    sheet: Sheet = field(repr=False)

    kind = Key[str](lambda _: "trial")
    sweep = Key[str]("sheet.picture.sweep")
    plan = Key[str]("sheet.picture.plan")
    metric = Key[str]("sheet.picture.metric")
    recipe = Key[str]("sheet.recipe")
    fitted_at = Key[datetime | None]("sheet.fitted_at")
    fitted_upto_gpu_hours = Key[float | None]("sheet.fitted_upto_gpu_hours")
    checkpoint = Key[str | None]("sheet.checkpoint")
    segments = Key[Sequence[SegmentRow]]("sheet.segments")
    transitions = Key[Sequence[Move]]("sheet.moves")
    decisions = Key[Sequence[Decision]]("sheet.decisions")
    config = Key[Mapping[str, Any]]("sheet.config")


def sheet_of(database: str, name: str, sweep: str | None = None) -> Sheet:
    """Return everything about the trial that a name stands for."""
    with open_store(database, read_only=True) as store, store.read() as session:
        trial = named(session, name, sweep)
        of_sweep = sweep_named(session, trial.sweep)
        picture = read_picture(session, of_sweep, datetime.now(UTC))
        row = next(each for each in picture.trials if each.name == trial.name)
        stored = session.scalars(select(Trial).where(Trial.id == row.id)).one()
        newest = select(Fit.made_at, Fit.upto_gpu_hours).where(Fit.trial_id == row.id).order_by(Fit.id.desc()).limit(1)
        fitted = session.execute(newest).first()
        return Sheet(
            picture=picture,
            row=row,
            recipe=stored.recipe,
            config=without_variables(stored.config),
            checkpoint=stored.checkpoint_path,
            fitted_at=fitted[0] if fitted else None,
            fitted_upto_gpu_hours=fitted[1] if fitted else None,
            moves=moves_of(session, row.id),
            segments=tuple(segments_of(session, Segment.trial_id == row.id).values()),
            decisions=decisions_of(session, of_sweep.id, Row.trial_id == row.id),
            also_in=trial.also_in,
        )


def moves_of(session: Session, trial: int) -> tuple[Move, ...]:
    """Return the changes of a trial's state."""
    columns = (Transition.at, Transition.from_state, Transition.to_state, Transition.reason)
    rows = session.execute(select(*columns).where(Transition.trial_id == trial).order_by(Transition.id))
    return tuple(Move(*row) for row in rows)


NEAR = 3  # names that are offered for one that is not known
LIKENESS = 0.55


@dataclass(frozen=True, slots=True)
class Named:
    """The trial that a name stands for; `also_in` are other sweeps with a trial of the same name."""

    name: str
    sweep: str
    also_in: tuple[str, ...] = ()


def named(session: Session, name: str, sweep: str | None = None) -> Named:
    """Return the trial that a name stands for.

    It may be cut short where its beginning says which it is. A name that several sweeps have is the newest's, unless
    one is given.
    """
    if sweep is not None:
        sweep_named(session, sweep)
    trials = _trials(session, sweep)
    for matching in (
        [each for each in trials if each[0] == name],
        [each for each in trials if each[0].casefold().startswith(f"{name.casefold()}-")],
        [each for each in trials if each[0].casefold().startswith(name.casefold())],
    ):
        if matching:
            found, newest = matching[0]
            here = {trial for trial, where in matching if where == newest}
            if len(here) > 1:
                raise NotFoundError(
                    f"'{name}' begins the names of several trials of {newest}: {some_of(sorted(here), NEAR)}"
                )
            others = tuple(where for trial, where in matching if trial == found and where != newest)
            return Named(found, newest, others)
    raise NotFoundError(_unknown(name, sweep, [trial for trial, _ in trials]))


def _trials(session: Session, sweep: str | None) -> list[tuple[str, str]]:
    """Return the names of trials, each with its sweep's, the newest sweep's first."""
    wanted = select(Trial.name, Sweep.name).join(Sweep, Sweep.id == Trial.sweep_id).order_by(Sweep.id.desc(), Trial.id)
    if sweep is not None:
        wanted = wanted.where(Sweep.name == sweep)
    return [(trial, of) for trial, of in session.execute(wanted)]


def _unknown(name: str, sweep: str | None, trials: list[str]) -> str:
    """Say which names are near, or where to find all."""
    missing = f"there is no trial '{name}'{'' if sweep is None else f' in {sweep}'}"
    by_folded = {each.casefold(): each for each in trials}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=NEAR, cutoff=LIKENESS)
    if near:
        return f"{missing}: did you mean {' or '.join(repr(by_folded[each]) for each in near)}?"
    return f"{missing}: `rlplan status {sweep or ''}".rstrip() + "` lists the trials of a sweep"
