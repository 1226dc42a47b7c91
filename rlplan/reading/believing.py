"""What all curves of a sweep together let one believe: one fit serves the recommendation and the bands."""

import math
from contextlib import nullcontext

from budgets.errors import BudgetError, InputError, NotFoundError, StoreError, StoreUnavailableError
from planner.pooling.pool import joint_of
from planner.recommending.prospect import DRAWS
from planner.store import Store, open_store
from planner.view import Seen, has_curve
from rlplan.reading.banding import bands_of
from rlplan.reading.damage import UNREADABLE, said
from rlplan.reading.evidence import collapsed_from
from rlplan.reading.recommend_reading import Stored, recommended_for, stored
from rlplan.reading.story import Beliefs
from runner.sweep.board import Board


def beliefs(database: str | Store, sweep: str | None = None) -> Beliefs:
    """Return what is believed of a sweep, by default the newest; NotFoundError when there is none of that name.

    Where nothing can be recommended, `why_not` says why, and what can be said of the curves is said all the same.
    """
    opened = nullcontext(database) if isinstance(database, Store) else open_store(database, read_only=True)
    with opened as store:
        try:
            known = stored(store, sweep)
            _leave_out_what_is_no_number(known.board)
            return believed(known)
        except (NotFoundError, StoreUnavailableError):
            raise
        except (InputError, StoreError) as error:
            return Beliefs(None, f"no recommendation: {error}", {}, {})
        except UNREADABLE as error:
            why_not = f"no recommendation: a stored value is damaged ({said(error)}); go back to a copy of the database"
            return Beliefs(None, why_not, {}, {})


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


def _leave_out_what_is_no_number(board: Board) -> None:
    """Take scores away that a damaged row brought; the story names them."""
    for number, trial in board.trials.items():
        if not all(map(_is_number, trial.scores)):
            board.put(number, scores=tuple(filter(_is_number, trial.scores)))


def _is_number(seen: Seen) -> bool:
    values = (seen.gpu_hours, seen.score, 0.0 if seen.standard_error is None else seen.standard_error)
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)
