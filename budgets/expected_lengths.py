"""How long responses are expected to be where nobody has measured them, by model, difficulty and cut."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from budgets import catalogue

LEAST_LOG_SD = 0.25  # however tight the cap: thinking can be switched off, and some responses end early
GIVEN_LOG_SD = 0.10  # of a mean that somebody gives: responses grow and shrink during training
SPREAD = 0.6  # log standard deviation of the lengths within a workload
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class ExpectedLength:
    """A mean response that nobody has measured, and how well it is known."""

    mean: float
    log_sd: float
    kind: str  # of model: reasoning, instruct or base


def expected_length(model: str, cap: float, pass_rate: float | None = None) -> ExpectedLength:
    """Expect the mean response of a model by its name, cut at so many tokens; catalogue/lengths.toml has sources."""
    kind = kind_of(model)
    table = catalogue.table("lengths")
    natural, width = table["kinds"][kind]["mean"], table["kinds"][kind]["width"]
    if pass_rate is not None:  # times e^(slope · difference in log odds from the reference pass rate)
        difficulty = table["difficulty"]
        rate = min(difficulty["most"], max(difficulty["least"], pass_rate))
        at_rate, at_reference = (math.log(p / (1 - p)) for p in (rate, difficulty["reference"]))
        natural *= math.exp(difficulty["slope"] * (at_rate - at_reference))
    low, middle, high = (_cut(natural * math.exp(sign * width), cap) for sign in (-1, 0, 1))
    return ExpectedLength(min(middle, float(cap)), max(LEAST_LOG_SD, math.log(high / low) / 2), kind)


def kind_of(model: str) -> str:
    """Return what kind of model a name is of: reasoning, instruct, or base for every other."""
    name = model.casefold()
    for kind, table in catalogue.table("lengths")["kinds"].items():
        if any(mark in name for mark in table["marks"]) and not any(mark in name for mark in table["but"]):
            return kind
    return "base"


def a_model(kind: str) -> str:
    """Return 'a base model', 'an instruct model'."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} model"


def _cut(natural: float, cap: float) -> float:
    """E[min(X, cap)] of log-normal lengths X with that mean."""
    location = math.log(natural) - SPREAD**2 / 2
    z = (math.log(cap) - location) / SPREAD
    return natural * _NORMAL.cdf(z - SPREAD) + cap * (1 - _NORMAL.cdf(z))
