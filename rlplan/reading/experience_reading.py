"""What the sweeps of a database leave behind for the next one."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from budgets.errors import NotFoundError
from planner.experience.experience import Experience
from planner.experience.extracting import FEWEST, experience_of
from planner.store import Store, open_store
from planner.store.schema import Plan, Sweep
from planner.view import has_curve
from rlplan.reading.recommend_reading import stored
from rlplan.reading.sweeps import workload_name


def experience_in(database: str, sweep: str | None) -> Experience:
    """Return what a sweep, by default the newest, has learnt so far."""
    with open_store(database, read_only=True) as store:
        return _experience(store, sweep)


def every_experience_in(database: str) -> tuple[Experience, ...]:
    """Return what each sweep of a database has learnt, but for those with too few curves to learn anything."""
    with open_store(database, read_only=True) as store:
        with store.read() as session:
            names = list(session.scalars(select(Sweep.name).order_by(Sweep.id)))
        found = tuple(_experience(store, name) for name in names if _configurations(store, name) >= FEWEST)
    if not found:
        raise NotFoundError(
            f"'{database}' has no sweep with scores of {FEWEST} configurations or more ({len(names)} sweeps in all): "
            "there is nothing to learn from; give another database, or a table of recorded runs"
        )
    return found


def _experience(store: Store, sweep: str | None) -> Experience:
    known = stored(store, sweep)
    view = known.board.view(0)
    curves = [(trial.configuration, trial.scores) for trial in view.trials.values() if has_curve(trial)]
    return experience_of(known.sweep.name, curves, view.target_gpu_hours, about(known.sweep.config, known.plan))


def _configurations(store: Store, sweep: str) -> int:
    view = stored(store, sweep).board.view(0)
    return len({trial.configuration for trial in view.trials.values() if has_curve(trial)})


def about(config: Mapping[str, Any], plan: Plan) -> dict[str, str]:
    """Return what a sweep of these settings trains, in the words by which sweeps are found to be alike."""
    trainer: dict[str, Any] | None = config.get("training", {}).get("trainer")
    known = {
        "model": plan.workload.get("model"),
        "model_parameters": plan.workload.get("parameters"),
        "response_tokens": plan.workload.get("response_tokens"),
        "task": workload_name(config, plan.workload),
        "difficulty": plan.difficulty,
        "recipe": plan.recipe,
        "trainer": trainer["name"] if trainer else "builtin",
    }
    return {name: str(value) for name, value in known.items() if value}
