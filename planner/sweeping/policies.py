"""Policies by name."""

from collections.abc import Callable

from budgets.errors import UnknownNameError
from planner.pooling.pool import Pool
from planner.sweeping.actions import Policy
from planner.sweeping.baselines import FullGrid, MedianStopping, RandomSearch
from planner.sweeping.chances import ALPHA
from planner.sweeping.halving import REDUCTION, Asha, Hyperband
from planner.sweeping.informed import InformedPolicy

POLICIES = ("rlplan", "asha", "hyperband", "median", "random", "full")


def open_policy(
    name: str,
    *,
    alpha: float = ALPHA,
    search: str | None = None,
    reduction: int = REDUCTION,
    pool: Pool | None = None,
) -> Policy:
    """Return a policy; `alpha`, `search` and `pool` are of rlplan, `reduction` is of ASHA and Hyperband."""
    makers: dict[str, Callable[[], Policy]] = {
        "rlplan": lambda: InformedPolicy(alpha=alpha, search=search, pool=pool),
        "asha": lambda: Asha(reduction),
        "hyperband": lambda: Hyperband(reduction),
        "median": MedianStopping,
        "random": RandomSearch,
        "full": FullGrid,
    }
    if name not in makers:
        raise UnknownNameError("policy", name, POLICIES)
    return makers[name]()
