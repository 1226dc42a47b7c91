"""What all curves of a sweep together let one believe: one fit serves the recommendation and the bands."""

from datetime import UTC, datetime

from sqlalchemy.orm import Session

from budgets.errors import BudgetError, InputError, NotFoundError, StoreError, StoreUnavailableError
from planner.pooling.bands import bands_of
from planner.pooling.pool import joint_of
from planner.recommending.prospect import DRAWS
from planner.store import Store
from planner.store.finals import pilots_of
from planner.store.schema import Sweep
from planner.store.sweeps import sweep_named
from planner.view import has_curve
from rlplan.reading.health import collapsed_from
from rlplan.reading.recommend_reading import Stored, recommended_for, stored_in
from rlplan.reading.story import Beliefs, Story, read_story

Rows = tuple[Stored, Stored | None]  # of a sweep, and of its pilots where it is their final run


def beliefs(store: Store, sweep: str | None = None) -> Beliefs:
    """Return what is believed of a sweep, by default the newest; NotFoundError when there is none of that name.

    What is recommended is the answer of the pilots, also where the sweep is their final run. Where nothing can be
    recommended, `why_not` says why, and what can be said of the curves is said all the same.
    """
    with store.read() as session:
        rows = _rows(session, store.location, sweep_named(session, sweep))
    return rows if isinstance(rows, Beliefs) else believed(*rows)


def story_and_beliefs(store: Store, sweep: str | None) -> tuple[Story, Beliefs]:
    """Return the story of a sweep and what is believed of it, both of the same moment."""
    with store.read() as session:
        row = sweep_named(session, sweep)
        story = read_story(session, row, datetime.now(UTC), {}, store.location)
        rows = _rows(session, store.location, row)
    return story, rows if isinstance(rows, Beliefs) else believed(*rows)


def _rows(session: Session, location: str, sweep: Sweep) -> Rows | Beliefs:
    """Return what the answer rests on, or that it cannot be read."""
    pilots = pilots_of(session, sweep)
    try:
        own = stored_in(session, location, sweep.name)
        return own, None if pilots.id == sweep.id else stored_in(session, location, pilots.name)
    except (NotFoundError, StoreUnavailableError):
        raise
    except (InputError, StoreError) as error:
        return _unknown(error)


def _unknown(error: InputError | StoreError) -> Beliefs:
    return Beliefs(None, f"no recommendation: {error}", {}, {})


def believed(known: Stored, pilots: Stored | None = None) -> Beliefs:
    """Return what is believed of a sweep that was read, of a final run with its pilots; curves are fitted once."""
    view = known.board.view(0)
    scored = [trial for trial in view.trials.values() if has_curve(trial)]
    found, why_not = None, None
    try:
        joint = joint_of(view, DRAWS) if scored else None
        found = recommended_for(known, joint=joint) if pilots is None else recommended_for(pilots)
    except (NotFoundError, BudgetError) as error:
        why_not = str(error)
    except InputError as error:
        return _unknown(error)
    bands = bands_of(joint, scored) if joint else {}
    cuts = {trial.trial: cut for trial in scored if (cut := collapsed_from(trial.scores)) is not None}
    return Beliefs(found, why_not, bands, cuts)
