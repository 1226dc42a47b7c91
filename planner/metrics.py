"""What a validation can be summed up by: the mean over its samples, or the best or the worst of k of them.

They prefer different allocations (IsoCompute, arXiv 2603.12151), so a sweep says which one it compares at the target.

With n samples of a problem and k ≤ n, best@k is the mean of the largest over all subsets of k samples, an unbiased
estimate: Σᵢ C(i − 1, k − 1) · x₍ᵢ₎ / C(n, k) over the scores in rising order. For scores of 0 and 1, c of them 1, it is
1 − C(n − c, k) / C(n, k), the estimator of pass@k (Chen et al., arXiv 2107.03374, equation 1). Worst@k is the same of
the smallest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from budgets.errors import InputError, StoreError

# Of the scale: three runs of one recipe differed by up to 0.015 in their asymptote, and the best study there is takes
# differences within this for noise between seeds (ScaleRL, arXiv 2510.13786).
EQUIVALENCE_MARGIN = 0.02
# How far runs of one configuration end apart: a standard deviation, in those of one answer, √(p(1 − p)). Three runs of
# ScaleRL (A.6: ±0.015 at 0.61) have 0.03; ten of PODS and three of AllocBench 0.04 to 0.05, early and late alike, as
# they have not in score, nor as a share of the gain (bench/results/decisions.md).
SEED_SD = 0.04

INTERVAL_LEVEL = 0.90  # of every interval, unless a person asks for another
INTERVAL_ENDS = ((1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, or an expectation, with a central interval."""

    median: float
    low: float
    high: float


Kind = Literal["mean", "best", "worst"]


class Measured(NamedTuple):
    """A score with its standard error over the problems; None where it is not known."""

    score: float
    standard_error: float | None


Further = Mapping[str, Sequence[float | None]]  # scores beside the mean, by name, each with its standard error


def expected_at(kind: Kind, scores: Sequence[float], k: int) -> float:
    """Return the expected best or worst of k of one problem's scores, drawn without putting back."""
    ordered, subsets = sorted(scores, reverse=kind == "worst"), math.comb(len(scores), k)
    return math.fsum(math.comb(i, k - 1) / subsets * ordered[i] for i in range(k - 1, len(scores)))


def mean_over(problems: Sequence[float]) -> tuple[float, float]:
    """Return the mean over problems and its standard error, which treats them as the sample that they are."""
    mean = sum(problems) / len(problems)
    spread = math.fsum((value - mean) ** 2 for value in problems) / max(1, len(problems) - 1)
    return mean, math.sqrt(spread / len(problems))


def further_scores(groups: Sequence[Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Return best@k and worst@k over problems that each have as many scores, for every k that is kept."""
    kinds: tuple[Kind, ...] = ("best", "worst")
    return {
        f"{kind}@{k}": mean_over([expected_at(kind, group, k) for group in groups])
        for kind in kinds
        for k in sizes(len(groups[0]))
    }


def sizes(samples: int) -> tuple[int, ...]:
    """Return the k that are kept of so many samples: the powers of two from 2 on, and all of them."""
    powers = [2**power for power in range(1, samples.bit_length()) if 2**power < samples]
    return (*powers, samples) if samples > 1 else ()


@dataclass(frozen=True, slots=True)
class Metric:
    """What curves are fitted to and configurations compared at."""

    kind: Kind
    k: int

    @classmethod
    def chosen(cls, kind: Kind, k: int | None, samples: int) -> "Metric":
        """Return the metric of a validation with so many samples; InputError when they do not yield it."""
        allowed = sizes(samples)
        if kind == "mean":
            if k not in (None, samples):
                raise InputError(f"metric_k = {k} goes with the metrics best and worst; the mean is over all {samples}")
            return cls(kind, samples)
        if not allowed:
            raise InputError(
                f"metric = '{kind}' needs at least 2 samples of each problem, and validation has {samples}"
            )
        if k is not None and k not in allowed:
            names = ", ".join(map(str, allowed))
            raise InputError(f"metric_k = {k} is not kept of {samples} samples of each problem; these are: {names}")
        return cls(kind, k or samples)

    @classmethod
    def of_sweep(cls, config: Mapping[str, Any]) -> "Metric":
        """Return the metric that a stored sweep compares by, the mean unless its settings say otherwise."""
        rule: Any = config
        for part in ("training", "validation"):
            rule = rule.get(part, {}) if isinstance(rule, Mapping) else None
        if not isinstance(rule, Mapping):
            raise StoreError(
                "a sweep is damaged: its settings of validations are none. Go back to a copy of the database"
            )
        return cls.chosen(rule.get("metric", "mean"), rule.get("metric_k"), rule.get("samples", 1))

    @property
    def name(self) -> str:
        """Such as best@4."""
        return f"{self.kind}@{self.k}"

    def of(self, score: float | None, standard_error: float | None, further: Further | None) -> Measured | None:
        """Return the metric's value where a mean and `further_scores` were measured; None where it was not."""
        if self.kind == "mean":
            return None if score is None else Measured(score, standard_error)
        if not further or self.name not in further:
            return None
        value, error = further[self.name]
        return None if value is None else Measured(value, error)
