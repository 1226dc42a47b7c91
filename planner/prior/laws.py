"""How a run gains by a study's law, in many draws of what the law leaves open: arrays of (runs, updates, draws)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from budgets.workload import RecipeTraits, Workload
from planner.prior.studies import WIDTHS, Study, Values, ceiling_logit, ease, expit

QUADRATIC_OCTAVES: Final = 3.0  # [A] how far from its optimum a loss grows as a square; beyond, more and more linearly
WARM_UP_UPDATES: Final = 10.0  # [P] IsoCompute and most recipes: a run that is as short has hardly learnt
FADING_OCTAVES: Final = 4.0  # [A] of compute beyond what was studied at which a study says half as much of n and batch
MOST_GAIN: Final = 0.98  # of what a base model lacks that any run gains
# What of a law is left open, in the order of a draw's normal numbers.
EFFECTS: Final = ("middle", "exponent", "ceiling", "group", "batch", "group loss", "batch loss", "midpoint")


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


class Sizes:
    """Runs in the same circumstances, at some numbers of updates, as arrays of (runs, updates, 1)."""

    def __init__(self, runs: Sequence[Run], updates: Values) -> None:
        """Lay them out."""
        self.n, self.B, signal = (
            np.array(values, dtype=np.float32)[:, np.newaxis, np.newaxis]
            for values in zip(*((r.rollouts_per_prompt, r.prompts_per_batch, r.signal) for r in runs), strict=True)
        )
        self.updates = updates[np.newaxis, :, np.newaxis]
        self.rollouts = self.n * self.B * self.updates
        self.informative = self.n * self.B * signal
        self.base = runs[0].circumstances.pass_rate


def gains(study: Study, sizes: Sizes, effects: Values, wider: float) -> Values:
    """Return the share of what the base model lacks that runs gain, (runs, updates, draws), surfaces left aside.

    `effects` are normal numbers, a row for each draw; `wider` is by how much what they stand for is wider than usual.
    """
    drawn = {name: wider * effects[:, place] for place, name in enumerate(EFFECTS)}
    exponent = study.exponent * np.exp(WIDTHS.log_exponent * drawn["exponent"])
    middle = math.log(study.middle) + WIDTHS.log_middle * drawn["middle"]
    # Informative rollouts, or updates where those of an update are beyond critical.
    progress = sizes.updates * sizes.informative / (1 + sizes.informative / study.critical)
    log_progress = np.log(np.maximum(progress, 1e-9)).astype(np.float32)
    learnt = expit(exponent * (log_progress - middle))
    begun = sizes.updates / (sizes.updates + WARM_UP_UPDATES)
    height = expit(ceiling_logit(sizes.base) + study.ceiling_shift + WIDTHS.ceiling_logit * drawn["ceiling"])
    gained: Values = height * learnt * begun
    return gained if study.group is None and study.batch is None else gained * _fit(study, sizes, drawn)


def _fit(study: Study, sizes: Sizes, drawn: dict[str, Values]) -> Values:
    """Return what n and batch leave of the gain; a study's claims fade beyond the compute that it was made at."""
    lost: Values = np.zeros((), dtype=np.float32)
    log_rollouts = np.log10(sizes.rollouts)
    if study.group is not None:
        at = log_rollouts - study.midpoint_decades * drawn["midpoint"] if study.midpoint_decades else log_rollouts
        best = study.log2_group(at, ease(sizes.base)) + WIDTHS.group_octaves * drawn["group"]
        loss_per_octave = study.group_loss * np.exp(WIDTHS.log_loss * drawn["group loss"])
        lost = lost + loss_per_octave * loss(np.log2(sizes.n) - best)
    if study.batch is not None:
        law = study.batch
        size = np.log2(sizes.B if law.counts == "prompts" else sizes.n * sizes.B)
        line = np.clip(law.at_a_million + law.octaves_per_decade * (log_rollouts - 6), law.low, law.high)
        best = line + WIDTHS.batch_octaves * drawn["batch"]
        loss_per_octave = study.batch_loss * np.exp(WIDTHS.log_loss * drawn["batch loss"])
        lost = lost + loss_per_octave * loss(size - best)
    if study.studied is not None:
        low, high = study.studied.rollouts
        beyond = np.maximum(0, np.maximum(np.log2(sizes.rollouts / high), np.log2(low / sizes.rollouts)))
        lost = lost / (1 + (beyond / FADING_OCTAVES) ** 2)
    return np.maximum(np.float32(0), 1 - lost)


def loss(octaves: Values) -> Values:
    """Return a smooth convex loss: half the square near nought, linear far away (pseudo-Huber)."""
    lost: Values = QUADRATIC_OCTAVES**2 * (np.sqrt(1 + (octaves / QUADRATIC_OCTAVES) ** 2) - 1)
    return lost
