"""How long responses are expected to be where nobody has measured them, by model, difficulty and cut."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from budgets import catalogue
from budgets.workload import ONE_TURN, Turns

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


def expected_length(
    model: str, most: float, pass_rate: float | None = None, *, turns: Turns = ONE_TURN, thinking: bool = True
) -> ExpectedLength:
    """Expect the mean response of a model by its name, cut at so many tokens, and each turn's where that is cut too."""
    kind, cap = kind_of(model, thinking=thinking), min(most, turns.most_tokens or most)
    table = catalogue.table("lengths")
    of_kind = table["kinds"][kind]
    natural, width = of_kind.get("turn", of_kind["mean"]) if turns.most_tokens else of_kind["mean"], of_kind["width"]
    if pass_rate is not None:  # times e^(slope · difference in log odds from the reference pass rate)
        difficulty = table["difficulty"]
        rate = min(difficulty["most"], max(difficulty["least"], pass_rate))
        at_rate, at_reference = (math.log(p / (1 - p)) for p in (rate, difficulty["reference"]))
        natural *= math.exp(difficulty["slope"] * (at_rate - at_reference))
    low, middle, high = (_cut(natural * math.exp(sign * width), cap) for sign in (-1, 0, 1))
    middle = _cut(turns.count * middle, most) if turns.most_tokens else middle
    return ExpectedLength(min(middle, float(most)), max(LEAST_LOG_SD, math.log(high / low) / 2), kind)


def kind_of(model: str, *, thinking: bool = True) -> str:
    """Return what kind of model a name is of, base for every other; a hybrid one is another where it may not think."""
    name = model.casefold()
    for kind, table in catalogue.table("lengths")["kinds"].items():
        if any(mark in name for mark in table["marks"]) and not any(mark in name for mark in table["but"]):
            hybrid = any(mark in name for mark in table.get("hybrid", ()))
            return kind if thinking or not hybrid else table["without_thinking"]
    return "base"


def a_model(kind: str) -> str:
    """Return 'a base model', 'an instruct model'."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} model"


def _cut(natural: float, cap: float) -> float:
    """E[min(X, cap)] of log-normal lengths X with that mean."""
    location = math.log(natural) - SPREAD**2 / 2
    z = (math.log(cap) - location) / SPREAD
    return natural * _NORMAL.cdf(z - SPREAD) + cap * (1 - _NORMAL.cdf(z))
