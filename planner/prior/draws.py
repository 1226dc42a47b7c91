"""The one prior: joint draws of how every run of a plan might go, smooth in everything that they depend on.

A draw is one hypothesis about all runs: a study, what its law leaves open (midpoint, exponent, ceiling, best n and
batch and what missing them costs), and a surface over n, B and updates that no law has. Draws have weights, which
depend on the workload alone. Everything that a plan says before its pilots is a mean, a quantile, a probability or a
value of information over these draws.

A run passes through every shorter one: what GPU-hours buy is the best along the way, and a run stops where more passes
over the prompts are expected to cost more than they gain. So more GPU-hours are never expected to do worse.
"""

import math
from collections.abc import Collection, Sequence
from functools import cache, cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.metrics import SEED_SD
from planner.prior.laws import EFFECTS, MOST_GAIN, Circumstances, Run, Sizes, gains
from planner.prior.studies import HARMLESS_EPOCHS, STUDIES, WIDTHS, Studied, Values, ceiling_logit, logit

DRAWS: Final = 2048  # about; each has a mirror image, so that what is odd in an effect leaves no trace in a mean
BLOCK: Final = 16_384  # runs by draws that are tabulated at once: what is between then stays in the processor's cache
FOLDS: Final = 4  # parts of the draws, of which one does where few are enough
# Half octaves of updates where runs gain, and octaves about them; scores between lie on lines in their logarithm.
STEPS: Final = np.exp2([0, 1, 2, 3, *np.arange(8, 29) / 2, 15, 16, 18, 20])
# Knots of the surface, in octaves of n, B and updates: nearer than the octaves over which it changes.
KNOTS: Final = (np.array([2.0, 5.0, 8.0]), np.array([5.0, 8.0]), np.array([4.0, 8.0, 12.0]))
# [D] "No clear loss to 25 passes, degradation by 100" (arXiv 2509.25300: −.0225 of a gain of .17 at 100) is 0.1;
# IsoCompute's 500 problems lost more than half of the gain within 31. Between them: the share of the gain that is
# kept falls as passes^−0.2 far beyond 25.
OVERTRAINING: Final = 0.2
# A study's weight is halved at so far from it; that of several distances falls with the sum of their squares [A].
MODEL_OCTAVES, PASS_RATE_LOGITS, LENGTH_OCTAVES, EXPERTS_APART = 1.5, 1.0, 1.5, 1.0

Weights = NDArray[np.float64]
Places = NDArray[np.intp]


class Expected(NamedTuple):
    """What each run comes to within its steps; `scores` has a row for each draw, a column for each run."""

    steps: list[int]
    scores: Values


@lru_cache(maxsize=4)
def prior_draws(runs: tuple[Run, ...], *, few: bool = False) -> "PriorDraws":
    """Return the draws of some runs, which do not depend on what they cost: a plan looks at them on several layouts.

    A few of them, one fold, do where all that matters is which run is far ahead.
    """
    return PriorDraws(runs, few=few)


class PriorDraws:
    """The scores of all runs in all draws, at every length."""

    def __init__(self, runs: Sequence[Run], *, few: bool = False, without: Collection[str] = ()) -> None:
        """Tabulate them, `without` some studies.

        Each draw is a hypothesis about all runs, so its weight is one: of several circumstances, the mean of theirs.
        """
        distinct = list(dict.fromkeys(run.circumstances for run in runs))
        drawn = _normals()
        mask = drawn.fold < 1 if few else np.ones(len(drawn.fold), dtype=bool)
        self.study = drawn.study[mask]
        counts = np.bincount(self.study)
        by_study = np.mean([weights_of(circumstances, without) for circumstances in distinct], axis=0)
        self.weights: Weights = (by_study / counts)[self.study]
        # Draws last: what is looked up later is one run at one length, in all of them.
        self._table = np.empty((len(runs), len(STEPS), len(self.study)), dtype=np.float32)
        at_once, effects, surfaces = BLOCK // len(self.study), drawn.effects[mask], drawn.surfaces[mask]
        for circumstances in distinct:
            rows = [place for place, run in enumerate(runs) if run.circumstances == circumstances]
            for start in range(0, len(rows), at_once):
                some = rows[start : start + at_once]
                widths = widths_of(circumstances, without)
                self._table[some] = self._scores([runs[place] for place in some], effects, surfaces, widths)
        self._means: Weights = np.stack([scores @ self.weights for scores in self._table])

    def _scores(self, runs: Sequence[Run], effects: Values, surfaces: Values, widths: Sequence[float]) -> Values:
        """Return the scores of runs in the same circumstances, (runs, steps, draws)."""
        here = runs[0].circumstances
        sizes = Sizes(runs, STEPS.astype(np.float32))
        # How the surface at each run and step is made of its heights at the knots: (runs · steps, knots).
        octaves = (np.log2(sizes.n), np.log2(sizes.B), np.log2(sizes.updates))
        spans = (WIDTHS.discrepancy_octaves, WIDTHS.discrepancy_octaves, WIDTHS.discrepancy_update_octaves)
        axes = [_along(at.ravel(), knots, span) for at, knots, span in zip(octaves, KNOTS, spans, strict=True)]
        basis = np.einsum("ir,jr,kt->rtijk", *axes).reshape(sizes.rollouts.size, -1)
        scores = np.empty((len(runs), len(STEPS), len(self.study)), dtype=np.float32)
        for number, (study, wider) in enumerate(zip(STUDIES, widths, strict=True)):
            columns = slice(*np.searchsorted(self.study, (number, number + 1)))
            surface = (basis @ (wider * WIDTHS.discrepancy * surfaces[columns].T)).reshape(len(runs), len(STEPS), -1)
            scores[..., columns] = gains(study, sizes, effects[columns], wider) * np.exp(surface)
        np.minimum(scores, np.float32(MOST_GAIN), out=scores)
        # That a study has another favourite at more compute takes nothing from a run that goes on.
        for step in range(1, len(STEPS)):
            np.maximum(scores[:, step], scores[:, step - 1], out=scores[:, step])
        scores *= 1 - here.pass_rate
        epochs = sizes.B * sizes.updates / here.prompts  # after many, less of the gain is kept
        scores *= (1 + (epochs / HARMLESS_EPOCHS) ** 4) ** (-OVERTRAINING / 4)
        scores += here.pass_rate
        return scores

    @cached_property
    def _best_before(self) -> Places:
        """For each run and each place in STEPS the place of the best expected score up to there."""
        rising = self._means >= np.maximum.accumulate(self._means, axis=1)
        best: Places = np.maximum.accumulate(np.where(rising, np.arange(len(STEPS)), 0), axis=1)
        return best

    def expected(self, runs: Sequence[int], steps: Sequence[int]) -> Expected:
        """Return the best that each of these runs comes to within its steps, at least one, and after how many."""
        rows, places = np.asarray(runs), np.searchsorted(STEPS, steps, side="right") - 1
        best = self._best_before[rows, places]
        whole = self.at(rows, np.asarray(steps, dtype=float))
        longer = self.weights @ whole >= self._means[rows, best]
        scores = np.where(longer, whole, np.ascontiguousarray(self._table[rows, best].T))
        used = [int(fixed if long else STEPS[at]) for fixed, long, at in zip(steps, longer, best.tolist(), strict=True)]
        return Expected(used, scores)

    def by_study(self, scores: Values) -> tuple[Weights, Weights]:
        """Return the weight of each study, and its expectation of each column of scores."""
        members = self.study == np.arange(len(STUDIES))[:, np.newaxis]
        return members @ self.weights, (members / members.sum(axis=1, keepdims=True)) @ scores

    def at(self, rows: Sequence[int] | Places, steps: Weights) -> Values:
        """Return the scores of runs after some steps of each."""
        rows, steps = np.asarray(rows), np.clip(steps, 1, STEPS[-1])
        before = np.minimum(np.searchsorted(STEPS, steps, side="right") - 1, len(STEPS) - 2)
        share = (np.log(steps / STEPS[before]) / np.log(STEPS[before + 1] / STEPS[before])).astype(np.float32)[:, None]
        values: Values = self._table[rows, before] * (1 - share) + self._table[rows, before + 1] * share
        return np.ascontiguousarray(values.T)


class _Normals(NamedTuple):
    study: Places  # of each draw
    fold: Places
    effects: Values
    surfaces: Values  # heights at the knots


@cache
def _normals() -> _Normals:
    """Return what is drawn, the same for all plans.

    Each study has as many draws as its share, whatever its weight in a plan, so that a plan that changes a little
    changes its answer a little.
    """
    shares = np.array([study.share for study in STUDIES])
    halves = np.maximum(8, np.round(DRAWS / 2 * shares / shares.sum())).astype(int)
    rng = np.random.default_rng(0)
    width = len(EFFECTS) + math.prod(map(len, KNOTS))
    drawn = [rng.standard_normal((count, width), dtype=np.float32) for count in halves]
    both = np.concatenate([np.concatenate([half, -half]) for half in drawn])
    # A draw and its mirror image are in one fold.
    folds = np.concatenate([np.tile(np.arange(count) % FOLDS, 2) for count in halves])
    study = np.repeat(np.arange(len(STUDIES)), 2 * halves)
    return _Normals(study, folds, both[:, : len(EFFECTS)], both[:, len(EFFECTS) :])


def _along(at: Values, knots: Weights, span: float) -> Values:
    """Return (knots, places): a Gaussian process along one axis, conditioned on white heights at the knots."""
    within = np.exp(-(((knots[:, None] - knots) / span) ** 2) / 2)
    across = np.exp(-(((knots[:, None] - at) / span) ** 2) / 2)
    solution = np.linalg.solve(np.linalg.cholesky(within), across)
    scaled: Values = (solution / np.linalg.norm(solution, axis=0)).astype(np.float32)
    return scaled


def weights_of(circumstances: Circumstances, without: Collection[str] = ()) -> Weights:
    """Return what each study counts in some circumstances, in all 1."""
    away = (0.0 if study.studied is None else distance(study.studied, circumstances) for study in STUDIES)
    raw = [
        0.0 if study.name in without else study.share / (1 + far**2) for study, far in zip(STUDIES, away, strict=True)
    ]
    weights: Weights = np.array(raw) / sum(raw)
    return weights


def widths_of(circumstances: Circumstances, without: Collection[str] = ()) -> list[float]:
    """Return by how much what each study leaves open is wider there; of none of them, by the nearest one's distance."""
    away = {study.name: distance(study.studied, circumstances) for study in STUDIES if study.studied is not None}
    nearest = min(far for name, far in away.items() if name not in without)
    return [study.wider * (1 + WIDTHS.wider_per_distance * away.get(study.name, nearest)) for study in STUDIES]


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


BEATEN = 0.05  # chance below which a pilot would hardly find a run ahead of another
LEAST_CHANCE_AHEAD = 0.25  # chance of being ahead of the first from which a run is called level with it


def chances_ahead(scores: Values, other: Values, weights: Weights, noise: float) -> Weights:
    """Return the probability of each run, a column each, to do better than another; `noise` is that of two runs."""
    apart = (scores - other[:, np.newaxis]) / noise
    # The normal distribution function to 3e-4 (Page 1977); SciPy's takes longer to import than a plan to make.
    ahead = 0.5 + 0.5 * np.tanh(0.7978846 * apart * (1 + 0.044715 * apart**2))
    chances: Weights = weights @ ahead
    return chances


def differences(scores: Values, other: Values, weights: Weights, noise: float) -> tuple[Weights, Weights]:
    """Return by how much each run is expected to be ahead of another, and the standard deviation of that."""
    apart = scores - other[:, np.newaxis]
    means: Weights = weights @ apart
    sds: Weights = np.sqrt(weights @ (apart - means) ** 2 + noise**2)
    return means, sds


def interval(scores: Values, weights: Weights) -> tuple[float, float]:
    """Return the 5 % and 95 % quantiles of a run's scores, and no less than what holds their mean."""
    order, mean = np.argsort(scores), float(weights @ scores)
    low, high = np.searchsorted(np.cumsum(weights[order]), (0.05, 0.95))
    return min(mean, float(scores[order[low]])), max(mean, float(scores[order[high]]))


def noise_between(base: float) -> float:
    """Return by how much two runs of the same cell differ at the end, as a standard deviation, at a base pass rate."""
    return math.sqrt(2) * _end_of_a_run(base)[1]


@lru_cache(maxsize=64)
def _end_of_a_run(base: float) -> tuple[float, float]:
    """Return what a run gains that comes to its ceiling, and how far seeds set it apart there."""
    gain = (1 - base) / (1 + math.exp(-ceiling_logit(base)))
    return gain, SEED_SD * math.sqrt((base + gain) * (1 - base - gain))
