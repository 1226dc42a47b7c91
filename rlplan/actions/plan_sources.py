"""What a plan's sweep learns from: what is named, else finished sweeps of the same database that are alike."""

from collections.abc import Sequence
from typing import Any, Final

from budgets.errors import InputError
from planner.experience.experience import Experience, compared, most_alike
from planner.experience.plain import from_plain, to_plain
from planner.experience.teaching import ALL, TransferPriors
from planner.percent import percent
from planner.pooling.features import features
from planner.store import Store
from planner.store.experiences import stored_experiences
from planner.store.schema import Plan
from rlplan.wording.assumptions import Assumption
from runner.sweep.planned import about, configuration_of

LEARNT: Final = "learnt"  # key of a plan's stored configuration: its sources, as plain data


def sources_of(
    plan: Plan, named: Sequence[Experience] | None, known: Sequence[Experience]
) -> tuple[list[dict[str, Any]], Assumption] | None:
    """Return what a plan's sweep learns from, as it is frozen in it, and the line that names it; None of nothing.

    That is all that is named, or those of the known that are alike.
    """
    what, chosen = about(plan, {}), named
    smooth = features([configuration_of(each) for each in plan.candidates])
    if chosen is None:
        chosen = most_alike(known, smooth.lines, plan.final_gpu_hours, what)
    if not chosen:
        return None
    weights = {
        each.name: each.weight for each in TransferPriors(tuple(chosen), what).priors(smooth, plan.final_gpu_hours)
    }
    texts = []
    for each in chosen:
        detail, weight = f" ({compared(each, what)})" if each.about else "", weights.get(each.name)
        texts.append(f"{each.name}{detail} {'has no axis of these' if weight is None else percent(weight)}")
    together = f"all together {percent(weights[ALL])}; " if ALL in weights else ""
    value = "; ".join([*texts, f"{together}none {percent(1 - sum(weights.values()))}, before a curve is seen"])
    source = "--learn-from" if named is not None else "finished sweeps of this database; --learn-from none: of none"
    return [to_plain(each) for each in chosen], Assumption("learnt from", value, source)


def left_in(store: Store) -> list[Experience]:
    """Return what the finished sweeps of a database have left behind, the newest first, as far as it can be read."""
    with store.read() as session:
        stored = stored_experiences(session)
    found = []
    for name, content in stored.items():
        try:
            found.append(from_plain(content, name))
        except InputError as error:
            store.notices.append(f"{error}; nothing is learnt from {name}")
    return found
