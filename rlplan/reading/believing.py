"""What all curves of a sweep together let one believe: one fit serves the recommendation and the bands."""

from contextlib import nullcontext

from budgets.errors import BudgetError, InputError, NotFoundError, StoreError, StoreUnavailableError
from planner.pooling.pool import joint_of
from planner.recommending.prospect import DRAWS
from planner.store import Store, open_store
from planner.view import has_curve
from rlplan.reading.banding import bands_of
from rlplan.reading.health import collapsed_from
from rlplan.reading.recommend_reading import Stored, recommended_for, stored
from rlplan.reading.story import Beliefs


def beliefs(database: str | Store, sweep: str | None = None) -> Beliefs:
    """Return what is believed of a sweep, by default the newest; NotFoundError when there is none of that name.

    Where nothing can be recommended, `why_not` says why, and what can be said of the curves is said all the same.
    """
    opened = nullcontext(database) if isinstance(database, Store) else open_store(database, read_only=True)
    with opened as store:
        try:
            known = stored(store, sweep)
            return believed(known)
        except (NotFoundError, StoreUnavailableError):
            raise
        except (InputError, StoreError) as error:
            return Beliefs(None, f"no recommendation: {error}", {}, {})


def believed(known: Stored) -> Beliefs:
    """Return what is believed of a sweep that was read; the curves are fitted once."""
    view = known.board.view(0)
    seen = [trial for trial in view.trials.values() if has_curve(trial)]
    joint = joint_of(view, DRAWS) if seen else None
    found, why_not = None, None
    try:
        found = recommended_for(known, joint=joint)
    except (NotFoundError, BudgetError) as error:
        why_not = str(error)
    bands = bands_of(joint, seen) if joint else {}
    cuts = {trial.trial: cut for trial in seen if (cut := collapsed_from(trial.scores)) is not None}
    return Beliefs(found, why_not, bands, cuts)
