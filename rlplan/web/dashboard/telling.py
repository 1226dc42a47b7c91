"""One trial, with what its sweep's page leaves out: every move, and how it failed."""

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import NotFoundError
from planner.store.schema import Transition
from planner.trials import TrialState
from rlplan.charts.chart import Chart
from rlplan.charts.curves import curve_panels
from rlplan.reading.story import Beliefs, Story, Stretch
from rlplan.reading.sweep_picture import TrialRow

HEIGHT = 420


@dataclass(frozen=True, slots=True)
class Move:
    """One change of a trial's state."""

    at: datetime
    from_state: TrialState | None
    to_state: TrialState
    reason: str


@dataclass(frozen=True, slots=True)
class TrialPage:
    """What the page of a trial shows."""

    trial: TrialRow
    chart: Chart | None  # None while it has no score
    stretches: tuple[Stretch, ...]
    moves: tuple[Move, ...]


def trial_page(session: Session, story: Story, beliefs: Beliefs | None, given: str) -> TrialPage:
    """Gather what the page of a trial shows; it is given by its id or by its name."""
    trial = _found(story, given)
    stretches = tuple(each for each in story.stretches if each.trial == trial.id)
    columns = (Transition.at, Transition.from_state, Transition.to_state, Transition.reason)
    rows = session.execute(select(*columns).where(Transition.trial_id == trial.id).order_by(Transition.id))
    return TrialPage(trial, _chart(story, beliefs, trial), stretches, tuple(Move(*row) for row in rows))


def _found(story: Story, given: str) -> TrialRow:
    for trial in story.picture.trials:
        if given in (str(trial.id), trial.name):
            return trial
    raise NotFoundError(f"{story.picture.sweep} has no such trial. Its trials are on its page")


def _chart(story: Story, beliefs: Beliefs | None, trial: TrialRow) -> Chart | None:
    """Draw the panel of a sweep that has this trial alone."""
    if not trial.scores:
        return None
    own = tuple(each for each in story.stretches if each.trial == trial.id)
    alone = replace(story, picture=replace(story.picture, trials=(trial,)), stretches=own)
    believed = beliefs and replace(
        beliefs, bands={trial.id: beliefs.bands[trial.id]} if trial.id in beliefs.bands else {}
    )
    panels = curve_panels(alone, believed).charts
    return replace(panels[0][1], height=HEIGHT) if panels else None
