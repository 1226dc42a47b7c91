"""What is known of allocations, as worlds: each says how a run of (n, B) gains score with its updates.

A world is a study (published, or our own bench) read as a function of a run. In all of them a run gains
ceiling · gain(progress) · fit(n) · fit(batch) of what the base model lacks; they differ in what counts as progress,
in how much of it is needed, and in which n and batch they favour at which compute. Nothing is cut off: what lies far
from what was studied only has less weight, and says less of n and batch.

Evidence: [P] the paper's text, [F] read off its figures, [2] at second hand, [D] derived from such numbers,
[B] fitted to our own bench, [A] assumed.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.group_law import OptimalGroupLaw
from planner.proposals.published import FRONTIERS, STUDIED_ROLLOUTS

Values = NDArray[np.float64]

QUADRATIC_OCTAVES: Final = 3.0  # [A] how far from its optimum a loss grows as a square; beyond, more and more linearly
WARM_UP_UPDATES: Final = 10.0  # [P] IsoCompute and most recipes: a run that is as short has hardly learnt
FADING_OCTAVES: Final = 4.0  # [A] of compute beyond what was studied at which a world says half as much of n and batch
# [D] ScaleRL's midpoints are 500 updates (batches of 768) and 800 (2,048), IsoCompute's frontier has 520 at 2,048;
# less what a batch falls short of twice the critical one, 450.
MIDDLE_UPDATES: Final = 450.0
# [B] rollouts of an update from which on more of them no longer pay in proportion: AllocBench's 180 runs give 265 on
# the easy task and 252 on the hard one. That the relevant size is n·B is published (OpenReview uK4kMpNx0W).
CRITICAL_ROLLOUTS: Final = 256.0


@dataclass(frozen=True, slots=True)
class Studied:
    """What a study was made on; None where it does not matter to what it says."""

    parameters: float
    pass_rates: tuple[float, float]
    response_tokens: float
    rollouts: tuple[float, float]
    experts: bool = False


@dataclass(frozen=True, slots=True)
class BatchLaw:
    """log2 of the best batch, in prompts or in rollouts, a line in log10 of the rollouts between two bounds."""

    counts: str
    at_a_million: float
    octaves_per_decade: float
    low: float
    high: float

    def __call__(self, rollouts: Values) -> Values:
        """Return log2 of the best batch at so many rollouts."""
        line = self.at_a_million + self.octaves_per_decade * (np.log10(rollouts) - 6)
        return np.clip(line, self.low, self.high)


@dataclass(frozen=True, slots=True)
class World:
    """One reading of one study. `share` is its weight among all before any distance; losses are shares of the gain."""

    study: str
    share: float
    studied: Studied | None
    middle: float  # progress at which half is gained
    exponent: float
    critical: float = math.inf  # rollouts of an update beyond which progress counts updates
    ceiling_shift: float = 0.0  # logits, against the ceiling that all share
    group: OptimalGroupLaw | None = None
    group_when_hard: OptimalGroupLaw | None = None
    group_loss: float = 0.0
    batch: BatchLaw | None = None
    batch_loss: float = 0.0

    def gain(self, n: Values, B: Values, updates: Values, signal: Values, base: float) -> Values:
        """Return the share of what the base model lacks that a run gains, prompts that repeat left aside."""
        rollouts = n * B * updates
        informative = n * B * signal
        progress = updates * informative / (1 + informative / self.critical)
        learnt = 1 / (1 + (self.middle / np.maximum(progress, 1e-9)) ** self.exponent)
        begun = updates / (updates + WARM_UP_UPDATES)
        return ceiling(base, self.ceiling_shift) * learnt * begun * self._fit(n, B, rollouts, base)

    def _fit(self, n: Values, B: Values, rollouts: Values, base: float) -> Values:
        """Return what n and batch leave of the gain; the worlds' claims fade beyond the compute they are made at."""
        lost = np.zeros(np.broadcast_shapes(n.shape, rollouts.shape))
        if self.group is not None:
            lost = lost + self.group_loss * loss(np.log2(n) - self._log2_group(rollouts, base))
        if self.batch is not None:
            size = np.log2(B if self.batch.counts == "prompts" else n * B)
            lost = lost + self.batch_loss * loss(size - self.batch(rollouts))
        if self.studied is not None:
            low, high = self.studied.rollouts
            beyond = np.maximum(0, np.maximum(np.log2(rollouts / high), np.log2(low / np.maximum(rollouts, 1e-9))))
            lost = lost / (1 + (beyond / FADING_OCTAVES) ** 2)
        return np.maximum(0.0, 1 - lost)

    def _log2_group(self, rollouts: Values, base: float) -> Values:
        assert self.group is not None
        easy = _log2_of_law(self.group, rollouts)
        if self.group_when_hard is None:
            return easy
        share = ease(base)
        return share * easy + (1 - share) * _log2_of_law(self.group_when_hard, rollouts)


def loss(octaves: Values) -> Values:
    """Return a smooth convex loss: half the square near nought, linear far away (pseudo-Huber)."""
    return QUADRATIC_OCTAVES**2 * (np.sqrt(1 + (octaves / QUADRATIC_OCTAVES) ** 2) - 1)


def _log2_of_law(law: OptimalGroupLaw, rollouts: Values) -> Values:
    exponent = np.minimum(700.0, -law.steepness * (np.log10(rollouts) - law.midpoint))
    return law.floor + law.rise / (1 + np.exp(exponent))


EASY_BASE, HARD_BASE = 0.45, 0.03125  # [P] the middles of IsoCompute's two bands of base pass rates
# [F] IsoCompute: .68 from .45 and .12 from .03 at 4 M rollouts, where the frontier has 73 % of its gain.
EASY_CEILING, HARD_CEILING = FRONTIERS["easy"].gain_ceiling, 0.12


def logit(share: float) -> float:
    """Return the log odds of a share, kept off nought and one."""
    share = min(1 - 1e-6, max(1e-6, share))
    return math.log(share / (1 - share))


def ease(base: float) -> float:
    """Return where a base pass rate lies between the hard band (0) and the easy one (1) that were studied."""
    return min(1.0, max(0.0, (logit(base) - logit(HARD_BASE)) / (logit(EASY_BASE) - logit(HARD_BASE))))


def ceiling(base: float, shift: float = 0.0) -> float:
    """Return the share of what a base model lacks that can be gained: a line in log odds through both bands."""
    slope = (logit(EASY_CEILING) - logit(HARD_CEILING)) / (logit(EASY_BASE) - logit(HARD_BASE))
    return 1 / (1 + math.exp(-(logit(EASY_CEILING) + slope * (logit(base) - logit(EASY_BASE)) + shift)))


# Of the gain, per unit of loss [D]: n = 8 scores .596 against .688 at 512 (easy, B = 32) and .093 against .122 (hard,
# what signal explains left out), which are .039 and .032; B costs .019 points over 5 octaves at n = 16 and .08 at the
# best n.
GROUP_LOSS, ISO_COMPUTE_BATCH_LOSS = 0.035, 0.025
ISO_COMPUTE_BATCH: Final = BatchLaw("prompts", 5.6, -1.43, 5.0, 7.0)  # [F] B = 128 at 1e5 rollouts, 32 from 2.5e6 on


def _iso_compute() -> tuple[World, ...]:
    """Return Qwen2.5-7B with its law's midpoint at five places: it depends on the model (4.7, 5.3 and 6.1 on three)."""
    easy, hard, frontier = FRONTIERS["easy"].optimal_group, FRONTIERS["hard"].optimal_group, FRONTIERS["easy"]
    studied = Studied(7.6e9, (HARD_BASE, EASY_BASE), 8192, STUDIED_ROLLOUTS)
    return tuple(
        World(
            "IsoCompute, Qwen2.5-7B",
            share,
            studied,
            frontier.gain_midpoint_rollouts,
            frontier.gain_exponent,
            group=OptimalGroupLaw(easy.rise, easy.steepness, easy.midpoint + decades, easy.floor),
            group_when_hard=OptimalGroupLaw(hard.rise, easy.steepness, hard.midpoint + decades, hard.floor),
            group_loss=GROUP_LOSS,
            batch=ISO_COMPUTE_BATCH,
            batch_loss=ISO_COMPUTE_BATCH_LOSS,
        )
        for decades, share in ((-0.8, 0.1), (-0.4, 0.2), (0.0, 0.4), (0.4, 0.2), (0.8, 0.1))
    )


WORLDS: Final[tuple[World, ...]] = (
    *_iso_compute(),
    # [F] n = 8 to about 55 k rollouts, then 64; its best, .62, comes early. The midpoint is moved as that of n* is [D].
    World(
        "IsoCompute, Qwen3-4B",
        0.5,
        Studied(4.0e9, (EASY_BASE, EASY_BASE), 8192, (2e4, 5e5)),
        4.8e4,
        0.75,
        ceiling_shift=-1.0,
        group=OptimalGroupLaw(3.0, 8.84, 4.74, 3.0),
        group_loss=GROUP_LOSS,
        batch=ISO_COMPUTE_BATCH,
        batch_loss=ISO_COMPUTE_BATCH_LOSS,
    ),
    # [F] n = 8 to 150–230 k rollouts, then 16; 128 is worse.
    World(
        "IsoCompute, Llama-3.1-8B",
        0.5,
        Studied(8.0e9, (EASY_BASE, EASY_BASE), 8192, (5e4, 1e6)),
        1.7e5,
        0.75,
        group=OptimalGroupLaw(1.0, 8.84, 5.28, 3.0),
        group_loss=GROUP_LOSS,
        batch=ISO_COMPUTE_BATCH,
        batch_loss=ISO_COMPUTE_BATCH_LOSS,
    ),
    # [P] 8, 16, 24, 32 at a fixed batch differ by no more than seeds do (A = .585, .610, .590, .595); batches of 2,048
    # end higher (.645) and later than of 768 (.610). [D] 152 rollouts a GPU-hour: the curves of both cross at 5 M
    # rollouts, what a wrong batch costs is .12 to .28 of the gain per unit. The base pass rate is not published [A].
    World(
        "ScaleRL, 8B and Scout",
        1.0,
        Studied(8.0e9, (0.3, 0.5), 14_336, (2e5, 1.5e7), experts=True),
        3.85e5,
        1.92,
        group=OptimalGroupLaw(0.0, 1.0, 6.0, 4.0),
        group_loss=GROUP_LOSS,
        batch=BatchLaw("rollouts", 9.13, 1.66, 5.0, 13.0),  # grows as √rollouts [A]
        batch_loss=0.14,
    ),
    # [2] 2-GRPO (arXiv 2510.00977): n = 2 does as well as 16. RL-excursions: 5 better than 64 at small budgets.
    World(
        "2-GRPO and RL-excursions",
        0.5,
        Studied(3.0e9, (0.2, 0.6), 4096, (1e4, 1e6)),
        MIDDLE_UPDATES * CRITICAL_ROLLOUTS,
        1.2,
        critical=CRITICAL_ROLLOUTS,
        group=OptimalGroupLaw(0.0, 1.0, 6.0, 2.5),
        group_loss=0.02,
    ),
    # [B] bench/data, both tasks: least squares over all validations of 180 runs (residual .03 and .04).
    World(
        "AllocBench, tiny models on sums",
        0.5,
        Studied(3.4e5, (0.04, 0.41), 6, (3e2, 6.5e4)),
        2350.0,
        2.0,
        critical=CRITICAL_ROLLOUTS,
        ceiling_shift=4.5,
        group=OptimalGroupLaw(0.0, 1.0, 6.0, 3.05),
        group_loss=0.02,
        batch=BatchLaw("prompts", 6.8, 0.0, 0.0, 20.0),
        batch_loss=0.007,
    ),
    # Updates that carry signal, wherever: it has the same weight at any distance. The exponent lies between
    # IsoCompute's .75 and ScaleRL's 1.92.
    World(
        "updates that carry signal",
        0.25,
        None,
        MIDDLE_UPDATES * CRITICAL_ROLLOUTS,
        1.2,
        critical=CRITICAL_ROLLOUTS,
    ),
)


def published_group(base: float, rollouts: float) -> float:
    """Return n* by IsoCompute's law for Qwen2.5-7B alone, between its two difficulties by the base pass rate."""
    share = ease(base)
    easy, hard = (FRONTIERS[difficulty].optimal_group(rollouts) for difficulty in ("easy", "hard"))
    return float(easy**share * hard ** (1 - share))
