"""What published studies let one expect of a cell, and how cells are ordered where they say nothing."""

import math

from budgets.allocation import Allocation
from budgets.cost import Z90
from budgets.workload import Workload
from planner.proposals.published import (
    FARTHEST_ROLLOUTS,
    FEWEST_SUPPORTED_UPDATES,
    FRONTIERS,
    HARMLESS_EPOCHS,
    STUDIED_PARAMETERS,
    STUDIED_ROLLOUTS,
    SUPPORTED_PARAMETERS,
    SUPPORTED_RESPONSE_TOKENS,
    FrontierPrior,
)
from planner.proposals.request import ScoreInterval

# Updates on fewer rollouts are noisier: progress per update ∝ 1 / (1 + critical / informative rollouts). That the
# relevant size is n·B is published (OpenReview uK4kMpNx0W); the number is an assumption.
CRITICAL_ROLLOUTS = 256.0
MODEL_SIZE_SD_PER_OCTAVE = 0.02
EXTRAPOLATION_SD_PER_OCTAVE = 0.02


def applicable_prior(workload: Workload, difficulty: str) -> FrontierPrior | None:
    """Return the published frontier for this difficulty, or None when the workload lies outside of the study."""
    in_range = (
        SUPPORTED_PARAMETERS[0] <= workload.model.parameters <= SUPPORTED_PARAMETERS[1]
        and not workload.model.experts
        and SUPPORTED_RESPONSE_TOKENS[0] <= workload.responses.cap <= SUPPORTED_RESPONSE_TOKENS[1]
    )
    return FRONTIERS.get(difficulty) if in_range else None


def expected_score(prior: FrontierPrior | None, workload: Workload, allocation: Allocation) -> ScoreInterval | None:
    """Return the expected validation score of a run with a 90 % interval, or None when nothing supports one."""
    rollouts = allocation.rollouts
    if prior is None or allocation.update_steps < FEWEST_SUPPORTED_UPDATES:
        return None
    if not STUDIED_ROLLOUTS[0] <= rollouts <= FARTHEST_ROLLOUTS:
        return None
    octaves_n = abs(math.log2(allocation.rollouts_per_prompt / prior.optimal_group(rollouts)))
    octaves_B = abs(math.log2(allocation.prompts_per_batch / prior.optimal_prompts(rollouts)))
    loss = octaves_n * prior.loss_per_group_octave + octaves_B * prior.loss_per_prompt_octave
    base = workload.pass_rates.mean
    median = max(base, prior.frontier_score(rollouts, base) - loss)
    octaves_size = abs(math.log2(workload.model.parameters / STUDIED_PARAMETERS))
    octaves_beyond = max(0.0, math.log2(rollouts / STUDIED_ROLLOUTS[1]))
    sd = math.hypot(
        prior.score_sd, MODEL_SIZE_SD_PER_OCTAVE * octaves_size, EXTRAPOLATION_SD_PER_OCTAVE * octaves_beyond, loss / 2
    )
    return ScoreInterval(median, max(0.0, median - Z90 * sd), min(1.0, median + Z90 * sd))


def effective_updates(allocation: Allocation, signal: float, prompt_set_size: int) -> float:
    """Count updates by what they teach: less on few informative rollouts, nothing on empty groups.

    Passes over the prompts beyond the harmless ones count as their logarithm, since repeated prompts teach less.
    """
    informative = allocation.rollouts_per_step * signal * (1 - 1 / allocation.rollouts_per_prompt)
    overuse = max(1.0, allocation.epochs(prompt_set_size) / HARMLESS_EPOCHS)
    fresh_updates = allocation.update_steps / overuse * (1 + math.log(overuse))
    return fresh_updates * informative / (informative + CRITICAL_ROLLOUTS)
