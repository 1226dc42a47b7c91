"""What is published of allocations, as `studies.toml` has it: laws of single runs, and how far to trust each."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

STUDIED_ROLLOUTS: Final = (5e4, 1e7)
FEWEST_SUPPORTED_UPDATES: Final = 50

# "No clear loss to 25 passes over the data; degradation by 100" (arXiv 2509.25300, Qwen2.5-7B base).
HARMLESS_EPOCHS: Final = 25.0
HARMFUL_EPOCHS: Final = 100.0

# Largest rollouts per step that the IsoCompute study swept.
LARGEST_STEP_ROLLOUTS: Final = {"easy": 65_536, "hard": 16_384}


Values = NDArray[np.floating[Any]]  # single precision where there are many draws


@dataclass(frozen=True, slots=True)
class Studied:
    """What a study was made on."""

    parameters: float
    pass_rates: tuple[float, float]
    response_tokens: float
    rollouts: tuple[float, float]
    experts: bool = False


STUDIED: Final = ("parameters", "pass_rates", "response_tokens", "rollouts", "experts")


@dataclass(frozen=True, slots=True)
class OptimalGroupLaw:
    """log2 n*(C) = rise / (1 + exp(−steepness·(log10 C − midpoint))) + floor, C in rollouts (arXiv 2603.12151)."""

    rise: float
    steepness: float
    midpoint: float
    floor: float

    def log2(self, log_rollouts: Values) -> Values:
        """Return log2 n* at log10 of the rollouts."""
        if not self.rise:
            return np.asarray(self.floor, dtype=np.float32)
        return self.floor + self.rise * expit(self.steepness * (log_rollouts - self.midpoint))

    def __call__(self, rollouts: float) -> float:
        """Return n* at so many rollouts."""
        return float(np.exp2(self.log2(np.asarray(math.log10(rollouts)))))


@dataclass(frozen=True, slots=True)
class BatchLaw:
    """log2 of the best batch, in prompts or in rollouts, a line in log10 of the rollouts between two bounds."""

    counts: str
    at_a_million: float
    octaves_per_decade: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Study:
    """One study's law of a run; losses are shares of the gain."""

    name: str
    share: float
    middle: float
    exponent: float
    studied: Studied | None = None
    critical: float = math.inf
    ceiling_shift: float = 0.0
    group: OptimalGroupLaw | None = None
    group_hard: OptimalGroupLaw | None = None
    midpoint_decades: float = 0.0
    group_loss: float = 0.0
    batch: BatchLaw | None = None
    batch_loss: float = 0.0
    wider: float = 1.0  # its own widths, in those of all studies

    def log2_group(self, log_rollouts: Values, easy: float) -> Values:
        """Return log2 n* by its law, between its two difficulties."""
        assert self.group is not None
        exact = self.group.log2(log_rollouts)
        if self.group_hard is None or easy == 1:
            return exact
        return easy * exact + (1 - easy) * self.group_hard.log2(log_rollouts)


@dataclass(frozen=True, slots=True)
class Widths:
    """Standard deviations of what may differ from a study's law where it is applied."""

    log_middle: float
    log_exponent: float
    ceiling_logit: float
    group_octaves: float
    batch_octaves: float
    log_loss: float
    discrepancy: float
    discrepancy_octaves: float
    discrepancy_update_octaves: float
    wider_per_distance: float
    variant: float


@dataclass(frozen=True, slots=True)
class RateMiss:
    """How far the best learning rate may lie from the rule's, in octaves above it, and what missing it costs."""

    best: list[float]  # where it was found, or is used
    loss: float
    early: float  # standard deviation of the logarithm of what a rate shows early on and does not keep
    collapse: float


@cache
def _file() -> Mapping[str, Any]:
    return tomllib.loads(files("planner.prior").joinpath("studies.toml").read_text(encoding="utf-8"))


def _study(row: Mapping[str, Any]) -> Study:
    fields = dict(row)
    for name, law in (("group", OptimalGroupLaw), ("group_hard", OptimalGroupLaw), ("batch", BatchLaw)):
        if name in fields:
            fields[name] = law(**fields[name])
    about = {name: fields.pop(name) for name in STUDIED if name in fields}
    studied = Studied(**about) if about else None
    return Study(**fields, studied=studied)


STUDIES: Final[tuple[Study, ...]] = tuple(_study(row) for row in _file()["study"])
WIDTHS: Final = Widths(**_file()["widths"])
RATE_MISS: Final = RateMiss(**_file()["learning_rate"])
EASY_BASE: Final[float] = _file()["ceiling"]["easy_base"]
HARD_BASE: Final[float] = _file()["ceiling"]["hard_base"]
EASY_CEILING: Final[float] = _file()["ceiling"]["easy"]
HARD_CEILING: Final[float] = _file()["ceiling"]["hard"]


def expit(x: Values) -> Values:
    """Return the share of log odds, in the precision that they have."""
    probability: Values = 1 / (1 + np.exp(-np.maximum(x, np.float32(-80))))
    return probability


def logit(share: float) -> float:
    """Return the log odds of a share, kept off nought and one."""
    share = min(1 - 1e-6, max(1e-6, share))
    return math.log(share / (1 - share))


def ease(base: float) -> float:
    """Return where a base pass rate lies between the hard band (0) and the easy one (1) that were studied."""
    return min(1.0, max(0.0, (logit(base) - logit(HARD_BASE)) / (logit(EASY_BASE) - logit(HARD_BASE))))


def ceiling_logit(base: float) -> float:
    """Return the log odds of the share of what a base model lacks that can be gained: a line through both bands."""
    slope = (logit(EASY_CEILING) - logit(HARD_CEILING)) / (logit(EASY_BASE) - logit(HARD_BASE))
    return logit(EASY_CEILING) + slope * (logit(base) - logit(EASY_BASE))


def published_group(base: float, rollouts: float) -> float:
    """Return n* by IsoCompute's law for Qwen2.5-7B alone, between its two difficulties by the base pass rate."""
    return float(np.exp2(STUDIES[0].log2_group(np.asarray(math.log10(rollouts)), ease(base))))
