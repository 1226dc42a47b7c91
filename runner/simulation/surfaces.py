"""Response surfaces of (n, B): the score of a run after so many rollouts, drawn from a seed around published constants.

A cell's mean score is R0 + (A − R0) / (1 + (C_mid/C)^b), the sigmoid of ScaleRL (arXiv 2510.13786, section 3) in
rollouts. IsoCompute (arXiv 2603.12151) says at which compute each n is the best one; there the cell's curve meets the
published frontier, which gives C_mid. Small n therefore rise early and end low, large n late and high.

The frontier that drawn surfaces meet, how far the best n gets with some rollouts, is that of Qwen2.5-7B-Instruct with
GRPO, held-out avg@4; read off the figures; B = 32, easy problems.

Random numbers follow from what they are for, at a microsecond each: they are mixed as SplitMix64 does it (Steele, Lea
and Flood, 2014), so that any draw of a trial can be had without those before it.
"""

import itertools
import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

from planner.prior.studies import STUDIES, OptimalGroupLaw
from runner.ports.trial import Pathologies, SimulationChoice

_WORD: Final = (1 << 64) - 1
_STANDARD: Final = NormalDist()
ROUGH: Final = 25.0  # variance from which a binomial is drawn as the Gaussian that it resembles
BASE_SCORES: Final = {"easy": 0.45, "hard": 0.03}  # of the models whose frontier is published
EXPONENT: Final = 1.92  # ScaleRL, 16 generations for each prompt
EXPONENT_PER_GROUP_OCTAVE: Final = -0.1  # log2; ScaleRL's Table 1 from 8 to 32 generations
GROUP_OCTAVE: Final = 1.9  # loss in A over what is published at 4 M rollouts, where large n have not arrived yet
MIDDLE_PER_PROMPT_OCTAVE: Final = 0.25  # log2: a larger B makes fewer updates of the same rollouts
MIDDLE_PER_SURPLUS_OCTAVE: Final = 0.5  # log2: beyond the n that any compute asks for
EDGE: Final = 0.02  # share of the law's rise that is cut at either end, where it would ask for no or endless compute
MOST_GAINED: Final = 0.85  # of a cell's gain where it meets the frontier
NEVER: Final = math.inf
FALL: Final = 0.02  # share of its life so far in which a collapsing run loses everything
ROUGH_ASYMPTOTE, ROUGH_MIDDLE = 0.006, 0.08  # standard deviations between neighbouring cells; the latter of a log
RUN_MIDDLE: Final = 0.05  # log standard deviation of C_mid between seeds


def mixed(*numbers: int) -> int:
    """Return 64 bits that look random and follow from the numbers and their order."""
    state = 0
    for number in numbers:
        state = (state ^ number) + 0x9E3779B97F4A7C15 & _WORD
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _WORD
        state ^= state >> 31
    return state


def uniform(*numbers: int) -> float:
    """Return a number between 0 and 1, neither included."""
    return ((mixed(*numbers) >> 11) + 0.5) / (1 << 53)


def normal(*numbers: int) -> float:
    """Return a standard normal number."""
    return _STANDARD.inv_cdf(uniform(*numbers))


def log_uniform(low: float, high: float, *numbers: int) -> float:
    """Return a number whose logarithm is uniform."""
    return low * math.pow(high / low, uniform(*numbers))


def binomial(chance: float, draws: int, *numbers: int) -> int:
    """Return how many of so many draws succeed."""
    if chance <= 0 or chance >= 1:
        return draws if chance >= 1 else 0
    if chance > 0.5:
        return draws - binomial(1 - chance, draws, *numbers)
    mean, variance = draws * chance, draws * chance * (1 - chance)
    if variance > ROUGH:
        return min(draws, max(0, round(mean + math.sqrt(variance) * normal(*numbers))))
    level, odds = uniform(*numbers), chance / (1 - chance)  # the distribution is inverted
    probability = math.exp(draws * math.log1p(-chance))
    below, successes = probability, 0
    while below < level and successes < draws:
        probability *= odds * (draws - successes) / (successes + 1)
        successes += 1
        below += probability
    return successes


@dataclass(frozen=True, slots=True)
class FrontierPrior:
    """How far the frontier gets from the base pass rate towards 1, and what a wrong n or B costs, by difficulty."""

    optimal_group: OptimalGroupLaw
    gain_ceiling: float
    gain_midpoint_rollouts: float
    gain_exponent: float
    optimal_log2_prompts: tuple[tuple[float, float], ...]
    loss_per_group_octave: float
    loss_per_prompt_octave: float

    def frontier_score(self, rollouts: float, base_pass_rate: float) -> float:
        """Return the best score reachable at so many rollouts, scaled to the base model's own pass rate."""
        gain = self.gain_ceiling / (1 + math.pow(self.gain_midpoint_rollouts / rollouts, self.gain_exponent))
        return base_pass_rate + (1 - base_pass_rate) * gain

    def optimal_prompts(self, rollouts: float) -> float:
        """Return the B of the frontier, interpolated between its segments in log C."""
        at = math.log10(rollouts)
        points = self.optimal_log2_prompts
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            if at <= x1:
                return math.exp2(y0 + (y1 - y0) * max(0.0, (at - x0) / (x1 - x0)))
        return math.exp2(points[-1][1])


_STUDIED = next(study for study in STUDIES if study.name == "IsoCompute, Qwen2.5-7B")


assert _STUDIED.group is not None


assert _STUDIED.group_hard is not None


FRONTIERS: Final[dict[str, FrontierPrior]] = {
    # Gain: least squares of R0 + (A−R0)/(1+(C_mid/C)^b) on the frontier's readings .54/.59/.61/.645/.68 at
    # .28/.85/1.27/2.7/4 M rollouts with R0 = .45 (A = .75, C_mid = 1.06 M, b = .75). Loss per octave: range 9.2 points
    # over 7 octaves of n at B = 32, 1.9 over 5 octaves of B at n = 16.
    "easy": FrontierPrior(
        optimal_group=_STUDIED.group,
        gain_ceiling=0.545,
        gain_midpoint_rollouts=_STUDIED.middle,
        gain_exponent=_STUDIED.exponent,
        optimal_log2_prompts=((5.0, 7.0), (5.5, 6.0), (6.1, 5.5), (6.4, 5.0)),
        loss_per_group_octave=0.013,
        loss_per_prompt_octave=0.006,
    ),
    # Gain: best values .09–.12 between 1 and 4 M rollouts from a base of .03; the shape is assumed. Loss per octave:
    # range 3.1 points over 5 octaves of n, 2.2 over 5 of B. Steepness 50 in the paper is pinned, really a step.
    "hard": FrontierPrior(
        optimal_group=_STUDIED.group_hard,
        gain_ceiling=0.097,
        gain_midpoint_rollouts=2.0e5,
        gain_exponent=0.75,
        optimal_log2_prompts=((5.0, 6.0), (6.0, 6.0), (6.16, 5.0)),
        loss_per_group_octave=0.006,
        loss_per_prompt_octave=0.004,
    ),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A curve over rollouts; what is never or nought by default departs from the sigmoid."""

    base: float
    asymptote: float
    middle: float
    exponent: float
    onset: float = 0.0
    late_share: float = 0.0
    late_middle: float = 1.0
    late_exponent: float = 1.0
    peak: float = NEVER
    lost: float = 0.0
    collapse: float = NEVER

    def score(self, rollouts: float) -> float:
        """Return the mean score after so many rollouts."""
        effective = min(rollouts, self.peak) - self.onset
        if effective < 1:  # one rollout
            return self._fallen(self.base, rollouts)
        gained = 1 / (1 + math.pow(self.middle / effective, self.exponent))
        if self.late_share:
            late = 1 / (1 + math.pow(self.late_middle / effective, self.late_exponent))
            gained += self.late_share * (late - gained)
        gain = (self.asymptote - self.base) * gained
        if rollouts > self.peak:
            gain *= 1 - self.lost * min(1.0, (rollouts - self.peak) / (4 * self.peak))
        return min(1.0, max(0.0, self._fallen(self.base + gain, rollouts)))

    def _fallen(self, score: float, rollouts: float) -> float:
        if rollouts <= self.collapse:
            return score
        return score * max(0.0, 1 - (rollouts - self.collapse) / (FALL * self.collapse))


class Surface:
    """The cells of one world; equal choices make equal surfaces."""

    def __init__(self, choice: SimulationChoice) -> None:
        """Draw what all cells share."""
        seed = self._seed = choice.seed
        self._noise = choice.score_noise
        self._pathologies = choice.pathologies
        self._published: FrontierPrior = FRONTIERS[choice.difficulty]
        base = BASE_SCORES[choice.difficulty] * math.exp(0.15 * normal(seed, 1))
        self._base = min(0.9, base)
        self._scale = choice.rollouts_scale * math.exp(0.4 * normal(seed, 2))
        top = self._published.gain_ceiling * math.exp(0.1 * normal(seed, 3))
        self._top = self._base + (1 - self._base) * min(0.95, top)
        steepness = math.exp(0.3 * normal(seed, 4))
        self._per_group_octave = GROUP_OCTAVE * self._published.loss_per_group_octave * steepness
        self._group_shift = 0.5 * normal(seed, 5)
        self._prompt_shift = 0.7 * normal(seed, 6)
        self._cells: dict[tuple[int, int], Shape] = {}

    def cell(self, rollouts_per_prompt: int, prompts_per_batch: int) -> Shape:
        """Return the mean curve of a cell."""
        key = rollouts_per_prompt, prompts_per_batch
        if key not in self._cells:
            plain = self._sigmoid(*key)
            self._cells[key] = departed(plain, self._pathologies, mixed(self._seed, *key))
        return self._cells[key]

    def run(self, rollouts_per_prompt: int, prompts_per_batch: int, seed: int) -> Shape:
        """Return the curve of one run of a cell, which its seed moves and may make collapse."""
        cell = self.cell(rollouts_per_prompt, prompts_per_batch)
        key = mixed(self._seed, rollouts_per_prompt, prompts_per_batch, seed)
        return of_one_run(cell, self._noise, self._pathologies, key)

    def _sigmoid(self, n: int, B: int) -> Shape:
        published, law = self._published, self._published.optimal_group
        octave = math.log2(n) - self._group_shift
        share = min(1 - EDGE, max(EDGE, (octave - law.floor) / law.rise))
        best_at = 10 ** (law.midpoint + math.log(share / (1 - share)) / law.steepness)
        octaves = math.log2(B / published.optimal_prompts(best_at)) - self._prompt_shift
        rough = mixed(self._seed, n, B)
        asymptote = (
            self._top
            - self._per_group_octave * max(0.0, law.floor + law.rise - octave)
            - published.loss_per_prompt_octave * (math.hypot(octaves, 0.5) - 0.5)
        )
        asymptote = max(asymptote, self._base + 0.1 * (self._top - self._base))
        exponent = EXPONENT * 2 ** (EXPONENT_PER_GROUP_OCTAVE * (math.log2(n) - 4))
        met = (published.frontier_score(best_at, self._base) - self._base) / (asymptote - self._base)
        met = min(MOST_GAINED, max(EDGE, met))
        middle = best_at * (1 / met - 1) ** (1 / exponent) * self._scale
        middle *= 2 ** (MIDDLE_PER_PROMPT_OCTAVE * octaves)
        middle *= 2 ** (MIDDLE_PER_SURPLUS_OCTAVE * max(0.0, octave - law.floor - law.rise))
        return Shape(
            base=self._base,
            asymptote=asymptote + ROUGH_ASYMPTOTE * normal(rough, 8) * (self._top - self._base) / 0.3,
            middle=middle * math.exp(ROUGH_MIDDLE * normal(rough, 9)),
            exponent=exponent,
        )


def of_one_run(cell: Shape, noise: float, rates: Pathologies, key: int) -> Shape:
    """Return the curve of one run of a cell, which its seed moves and may make collapse."""
    # Two standard deviations and no more: what is published is a largest difference.
    moved = noise * max(-1.0, min(1.0, normal(key, 11) / 2))
    collapse = NEVER
    if uniform(key, 12) < rates.collapse:
        collapse = cell.onset + cell.middle * log_uniform(0.3, 5, key, 13)
    return replace(
        cell,
        asymptote=max(0.0, cell.asymptote + moved),
        middle=cell.middle * math.exp(RUN_MIDDLE * normal(key, 14)),
        collapse=collapse,
    )


def departed(plain: Shape, rates: Pathologies, key: int) -> Shape:
    """Return the shape with the departures that its cell has; the ranges hold the public runs that we have read."""
    shape, gain = plain, plain.asymptote - plain.base
    if uniform(key, 21) < rates.crossing:
        later = log_uniform(2.5, 6, key, 22)
        higher = min(0.98, shape.asymptote + gain * log_uniform(0.15, 0.4, key, 23))
        shape = replace(shape, middle=shape.middle * later, asymptote=higher)
    if uniform(key, 24) < rates.late_start:
        shape = replace(shape, onset=shape.middle * log_uniform(0.3, 1.5, key, 25), exponent=shape.exponent * 1.3)
    if uniform(key, 26) < rates.second_rise:
        shape = replace(
            shape,
            late_share=0.2 + 0.4 * uniform(key, 27),
            late_middle=shape.middle * log_uniform(4, 10, key, 28),
            late_exponent=log_uniform(4, 10, key, 29),
        )
    if uniform(key, 30) < rates.slide:
        peak = shape.onset + shape.middle * log_uniform(1.5, 5, key, 31)
        shape = replace(shape, peak=peak, lost=0.05 + 0.45 * uniform(key, 32))
    return shape
