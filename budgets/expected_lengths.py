"""How long responses are expected to be where nobody has measured them: by the kind of model and the cut."""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import NormalDist
from typing import Any

# However tight the cap: thinking can be switched off, and some responses end early.
LEAST_LOG_SD = 0.25
SPREAD = 0.6  # log standard deviation of the lengths within a workload
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class ExpectedLength:
    """A mean response that nobody has measured, and how well it is known."""

    mean: float
    log_sd: float
    kind: str  # of model: reasoning, instruct or base


def expected_length(model: str, cap: float) -> ExpectedLength:
    """Expect the mean response of a model by its name, cut at so many tokens; catalogue/lengths.toml has sources."""
    kind = kind_of(model)
    natural, width = _table()[kind]["mean"], _table()[kind]["width"]
    low, middle, high = (_cut(natural * math.exp(sign * width), cap) for sign in (-1, 0, 1))
    return ExpectedLength(middle, max(LEAST_LOG_SD, math.log(high / low) / 2), kind)


def kind_of(model: str) -> str:
    """Return what kind of model a name is of: reasoning, instruct, or base for every other."""
    name = model.casefold()
    for kind, table in _table().items():
        if any(mark in name for mark in table["marks"]) and not any(mark in name for mark in table["but"]):
            return kind
    return "base"


def _cut(natural: float, cap: float) -> float:
    """E[min(X, cap)] of log-normal lengths X with that mean."""
    location = math.log(natural) - SPREAD**2 / 2
    z = (math.log(cap) - location) / SPREAD
    return natural * _NORMAL.cdf(z - SPREAD) + cap * (1 - _NORMAL.cdf(z))


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("budgets.catalogue").joinpath("lengths.toml").read_text(encoding="utf-8"))
