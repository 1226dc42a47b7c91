"""What the sweeps of a database leave behind for the next one."""

from sqlalchemy import select

from budgets.errors import NotFoundError
from planner.experience.experience import Experience
from planner.experience.extracting import FEWEST
from planner.store import open_store
from planner.store.schema import Sweep
from rlplan.reading.recommend_reading import stored
from runner.sweep.learnt import left_behind, tells


def experience_in(database: str, sweep: str | None) -> Experience:
    """Return what a sweep, by default the newest, has learnt so far."""
    with open_store(database, read_only=True) as store:
        return left_behind(stored(store, sweep).board)


def every_experience_in(database: str) -> tuple[Experience, ...]:
    """Return what each sweep of a database has learnt, but for those with too few curves to learn anything."""
    with open_store(database, read_only=True) as store:
        with store.read() as session:
            names = list(session.scalars(select(Sweep.name).order_by(Sweep.id)))
        boards = [stored(store, name).board for name in names]
    found = tuple(left_behind(board) for board in boards if tells(board))
    if not found:
        raise NotFoundError(
            f"'{database}' has no sweep with scores of {FEWEST} configurations or more ({len(names)} sweeps in all): "
            "there is nothing to learn from; give another database, or a table of recorded runs"
        )
    return found
