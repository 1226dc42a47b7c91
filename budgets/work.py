"""What the phases of an update step are made of: the parts that its seconds are proportional to, and its rollouts.

Each term belongs to one coefficient of the cost model (`Driver`): a phase's seconds are Σ coefficient · base seconds,
so that measured steps can correct the coefficients one by one. `budgets.generation` and `budgets.training` have the
terms of the two large phases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from budgets.execution import Execution
from budgets.hardware import Gpu
from budgets.memory import checkpoint_bytes
from budgets.workload import RecipeTraits, Workload

MOST_REFILLS = 10.0  # dynamic sampling gives up beyond this many times the batch
# Writing a checkpoint while training waits, for each node: 7B in 149 s (pytorch.org/blog/reducing-checkpointing-times),
# 8B in 360 s (pytorch/torchtitan#1301) and 240 s (pytorch/pytorch#104081), 13B in 300 s (epfLLM/Megatron-LLM#69).
SAVE_GB_PER_S = 0.5
COPIED_SHARE = 1 / 23.62  # of that, where a copy on the host is written later: 6.3 of 148.8 s (the first of these)


class Driver(StrEnum):
    """What a part of a step's time is proportional to."""

    DECODE_OVERHEAD = "decode_overhead"
    DECODE_BANDWIDTH = "decode_bandwidth"
    DECODE_COMPUTE = "decode_compute"
    PREFILL_COMPUTE = "prefill_compute"
    REWARD = "reward"
    TRAIN_COMPUTE = "train_compute"
    FIXED = "fixed"
    WEIGHT_SYNC = "weight_sync"
    SAVING = "saving"
    EXPERTS = "experts"
    GATHERING = "gathering"
    OFFLOADING = "offloading"
    TOOLS = "tools"


class Phase(StrEnum):
    """A part of a step that is timed by itself."""

    GENERATE = "generate"
    REWARD = "reward"
    OLD_LOG_PROBS = "old_log_probs"
    REFERENCE = "reference"
    TRAIN = "train"
    SYNC = "sync"
    EVALUATE = "evaluate"
    SAVE = "save"


Seconds = dict[Driver, float]


@dataclass(frozen=True, slots=True)
class StepLoad:
    """The rollouts of one update: what is asked for, generated and trained on."""

    prompts: float
    generated: float
    trained: float

    @classmethod
    def of(cls, rollouts_per_prompt: int, prompts: int, traits: RecipeTraits, signal: float) -> "StepLoad":
        """Count the rollouts that a recipe generates and keeps when only a share of the groups carries signal."""
        refills = min(MOST_REFILLS, 1 / max(signal, 1e-9)) if traits.refills_groups else 1.0
        share = signal if traits.drops_groups else 1.0
        rollouts = rollouts_per_prompt * prompts
        return cls(prompts=prompts * refills, generated=rollouts * refills, trained=rollouts * share)


def save_seconds(workload: Workload, gpu: Gpu, gpus: int, execution: Execution) -> Seconds:
    """Return the seconds of one checkpoint, which the nodes that train write together."""
    nodes = max(1.0, gpus / gpu.gpus_per_node)
    written = checkpoint_bytes(workload.model, execution.lora_rank)
    waited = COPIED_SHARE if execution.saves_aside else 1.0
    return {Driver.SAVING: waited * written / (nodes * SAVE_GB_PER_S * 1e9)}


def reward_seconds(load: StepLoad, traits: RecipeTraits) -> Seconds:
    """Return the seconds to score one update's rollouts, so many at once, after the batch was generated."""
    turns = max(1 / traits.updates_per_batch, load.generated / traits.execution.reward_parallel)
    return {Driver.REWARD: turns * traits.execution.reward_seconds}


def total(seconds: Mapping[Driver, float]) -> float:
    """Sum the drivers at coefficient 1."""
    return sum(seconds.values())
