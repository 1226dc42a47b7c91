"""Policies by name."""

from collections.abc import Callable

from budgets.errors import UnknownNameError
from planner.pooling.pool import Pool
from planner.sweeping.actions import Policy
from planner.sweeping.baselines import FullGrid, MedianStopping, RandomSearch
from planner.sweeping.halving import Asha, Hyperband
from planner.sweeping.informed import InformedPolicy

POLICIES = ("rlplan", "asha", "hyperband", "median", "random", "full")


def open_policy(name: str, *, search: str | None = None, pool: Pool | None = None) -> Policy:
    """Return a policy; `search` and `pool` are of rlplan."""
    makers: dict[str, Callable[[], Policy]] = {
        "rlplan": lambda: InformedPolicy(search=search, pool=pool),
        "asha": Asha,
        "hyperband": Hyperband,
        "median": MedianStopping,
        "random": RandomSearch,
        "full": FullGrid,
    }
    if name not in makers:
        raise UnknownNameError("policy", name, POLICIES)
    return makers[name]()
