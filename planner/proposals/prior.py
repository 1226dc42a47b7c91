"""What is expected of every cell before any pilot: a mixture of worlds, smooth in everything it depends on.

The weights depend on the workload alone, so that a world is one hypothesis about all cells, and scores of cells may be
compared within it. A cell's run passes through every shorter one: what is expected of GPU-hours is the best along the
way, and a run stops where more passes over the prompts are expected to cost more than they gain. So more GPU-hours are
never expected to do worse.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from budgets.workload import RecipeTraits, Workload
from planner.proposals.published import HARMLESS_EPOCHS
from planner.proposals.worlds import WORLDS, Studied, Values, ceiling, logit

# [D] "No clear loss to 25 passes, degradation by 100" (arXiv 2509.25300: −.0225 of a gain of .17 at 100) is 0.1;
# IsoCompute's 500 problems lost more than half of the gain within 31. Between them: the share of the gain that is
# kept falls as passes^−0.2 far beyond 25.
OVERTRAINING: Final = 0.2

# A study's weight is halved at so far from it; that of several distances falls with the sum of their squares [A].
MODEL_OCTAVES, PASS_RATE_LOGITS, LENGTH_OCTAVES, EXPERTS_APART = 1.5, 1.0, 1.5, 1.0
LEVEL_SD: Final = 0.25  # of what can be gained: .07 on easy problems and .03 on hard ones, within a study [A]
PER_DISTANCE: Final = 0.5  # by how much that grows for each such distance from the nearest study [A]
COMPUTE_OCTAVES: Final = 4.0  # of compute beyond the studies that count as one distance [A]

# The same for every budget. (Without np.unique, which loads all of numpy.ma.)
STEPS: Final = np.array(sorted({round(2 ** (quarters / 4)) for quarters in range(160)}), dtype=float)


Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What of a workload the expected scores depend on."""

    parameters: float
    experts: bool
    response_tokens: float
    pass_rate: float
    prompts: int

    @classmethod
    def of(cls, workload: Workload) -> "Circumstances":
        """Take them out of a workload."""
        model, cap = workload.model, workload.responses.cap
        return cls(model.parameters, model.experts > 0, cap, workload.pass_rates.mean, workload.prompt_set_size)


@dataclass(frozen=True, slots=True)
class Run:
    """The sizes of a cell that its expected score depends on."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    signal: float  # share of a batch's groups whose rewards differ
    circumstances: Circumstances

    @classmethod
    def of(cls, sizes: tuple[int, int], signal_fraction: float, traits: RecipeTraits, here: Circumstances) -> "Run":
        """Return the run of (n, B) of a recipe; groups that are generated anew until they differ all carry signal."""
        return cls(*sizes, 1.0 if traits.refills_groups and signal_fraction else signal_fraction, here)

    @property
    def rollouts_per_step(self) -> int:
        """n·B."""
        return self.rollouts_per_prompt * self.prompts_per_batch


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of each run within its steps; `scores` has a row for each world, a column for each run."""

    steps: list[int]
    scores: Values
    medians: Values
    sds: Values


class Prior:
    """The scores of all runs in all worlds, at every length."""

    def __init__(self, runs: Sequence[Run]) -> None:
        """Tabulate them; equal circumstances share the weights, several have their mean."""
        self.runs = runs
        found = list(dict.fromkeys(run.circumstances for run in runs))
        self.weights: Values = np.mean([weights_of(each) for each in found], axis=0)
        self._table = np.concatenate([self._scores(each) for each in found], axis=1)
        order = [i for each in found for i, run in enumerate(runs) if run.circumstances == each]
        self._table = self._table[:, np.argsort(order)]

    def _scores(self, circumstances: Circumstances) -> Values:
        """Return the scores in each world of the runs in some circumstances at each number of steps."""
        runs = [run for run in self.runs if run.circumstances == circumstances]
        n, B, signal = (
            np.array(values, dtype=float)[:, np.newaxis]
            for values in zip(*((r.rollouts_per_prompt, r.prompts_per_batch, r.signal) for r in runs), strict=True)
        )
        base, updates = circumstances.pass_rate, STEPS[np.newaxis, :]
        kept = kept_of_gain(B * updates / circumstances.prompts)
        gains = np.array([world.gain(n, B, updates, signal, base) for world in WORLDS])
        # That a study has another favourite at more compute takes nothing from a run that goes on.
        return base + (1 - base) * np.maximum.accumulate(gains, axis=-1) * kept

    @cached_property
    def _best_before(self) -> Places:
        """For each run and each place in STEPS the place of the best expected score up to there."""
        means = np.tensordot(self.weights, self._table, axes=1)
        rising = means >= np.maximum.accumulate(means, axis=1)
        best: Places = np.maximum.accumulate(np.where(rising, np.arange(len(STEPS)), 0), axis=1)
        return best

    def expected(self, runs: Sequence[int], steps: Sequence[int]) -> Expected:
        """Return the best that each of these runs comes to within its steps, at least one, and after how many."""
        rows, places = np.asarray(runs), np.searchsorted(STEPS, steps, side="right") - 1
        best = self._best_before[rows, places]
        whole = self._at(rows, np.asarray(steps, dtype=float), places)
        stopped = self._table[:, rows, best]
        longer = self.weights @ whole >= self.weights @ stopped
        scores = np.where(longer, whole, stopped)
        used = [int(given if long else STEPS[at]) for given, long, at in zip(steps, longer, best, strict=True)]
        medians = self.weights @ scores
        return Expected(used, scores, medians, self._sds(rows, scores, medians, used))

    def _at(self, rows: Places, steps: Values, places: Places) -> Values:
        """Return the scores between the tabulated steps, along a line in their logarithm."""
        after = np.minimum(places + 1, len(STEPS) - 1)
        gap = np.log(STEPS[after] / STEPS[places])
        share = np.clip(np.log(steps / STEPS[places]) / np.where(gap > 0, gap, 1), 0, 1)
        between: Values = self._table[:, rows, places] * (1 - share) + self._table[:, rows, after] * share
        return between

    def _sds(self, rows: Places, scores: Values, medians: Values, steps: Sequence[int]) -> Values:
        """Return the spread between the worlds and within them, which grows with the distance from all of them."""
        between = self.weights @ (scores - medians) ** 2
        runs = [self.runs[row] for row in rows]
        rollouts = np.array([run.rollouts_per_step * its for run, its in zip(runs, steps, strict=True)], dtype=float)
        within = np.zeros(len(runs))
        for each in dict.fromkeys(run.circumstances for run in runs):
            own = np.array([run.circumstances == each for run in runs])
            within[own] = within_sd(each, rollouts[own])
        sds: Values = np.hypot(np.sqrt(between), within)
        return sds


def kept_of_gain(epochs: Values) -> Values:
    """Return the share of the gain that is kept after so many passes over the prompts."""
    kept: Values = (1 + (epochs / HARMLESS_EPOCHS) ** 4) ** (-OVERTRAINING / 4)
    return kept


def weights_of(circumstances: Circumstances) -> Values:
    """Return what each world counts in some circumstances, in all 1."""
    away = (0.0 if world.studied is None else distance(world.studied, circumstances) for world in WORLDS)
    raw = np.array([world.share / (1 + far**2) for world, far in zip(WORLDS, away, strict=True)])
    weights: Values = raw / raw.sum()
    return weights


def distance(studied: Studied, circumstances: Circumstances) -> float:
    """Return how far circumstances lie from those that were studied: 1 is where a study counts half."""
    low, high = studied.pass_rates
    base = logit(circumstances.pass_rate)
    return math.sqrt(
        (math.log2(circumstances.parameters / studied.parameters) / MODEL_OCTAVES) ** 2
        + (max(0.0, base - logit(high), logit(low) - base) / PASS_RATE_LOGITS) ** 2
        + (math.log2(circumstances.response_tokens / studied.response_tokens) / LENGTH_OCTAVES) ** 2
        + (EXPERTS_APART if circumstances.experts and not studied.experts else 0.0) ** 2
    )


def within_sd(circumstances: Circumstances, rollouts: Values) -> Values:
    """Return the uncertainty of the level that all worlds share, in some circumstances after so many rollouts."""
    each = [world.studied for world in WORLDS if world.studied is not None]
    far = np.array([[distance(studied, circumstances)] for studied in each])
    beyond = np.array([_octaves_beyond(studied, rollouts) for studied in each]) / COMPUTE_OCTAVES
    apart: Values = np.hypot(far, beyond).min(axis=0)
    base = circumstances.pass_rate
    return LEVEL_SD * (1 - base) * ceiling(base) * (1 + PER_DISTANCE * apart)


def _octaves_beyond(studied: Studied, rollouts: Values) -> Values:
    low, high = studied.rollouts
    beyond: Values = np.maximum(0.0, np.maximum(np.log2(rollouts / high), np.log2(low / rollouts)))
    return beyond
