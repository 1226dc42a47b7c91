"""The three numbers to choose, and what follows from them without any hardware."""

import math
from dataclasses import dataclass
from typing import Final

from budgets.errors import InputError

LARGEST_SCALING_ROLLOUTS: Final = 8192  # of an update, from which on the learning rate stays


@dataclass(frozen=True, slots=True)
class Allocation:
    """Rollouts per prompt (n) × prompts per batch (B) × update steps (M)."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int

    def __post_init__(self) -> None:
        if self.rollouts_per_prompt < 2:
            raise InputError(
                f"rollouts per prompt is {self.rollouts_per_prompt}: a group needs at least 2, "
                "because the advantage is measured against the group's own mean"
            )
        if self.prompts_per_batch < 1:
            raise InputError(f"prompts per batch is {self.prompts_per_batch}: it must be at least 1")
        if self.update_steps < 0:
            raise InputError(f"update steps is {self.update_steps}: it cannot be negative")

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts generated for one update, n·B."""
        return self.rollouts_per_prompt * self.prompts_per_batch

    @property
    def rollouts(self) -> int:
        """Rollouts of the whole run, n·B·M: the compute axis of the IsoCompute study."""
        return self.rollouts_per_step * self.update_steps

    def epochs(self, prompt_set_size: int) -> float:
        """Return how many times the run goes over a prompt set."""
        return self.prompts_per_batch * self.update_steps / prompt_set_size

    def learning_rate(self, base: float, base_rollouts: int) -> float:
        """Scale a learning rate from its anchor batch by √(n·B).

        At a fixed rate a sweep over n·B is confounded (IsoCompute: 1e-6 at 1,024 rollouts a step; the
        square-root rule was stable up to 8,192, the linear one was not). Above that it is flat: the rule broke at
        16,384 (arXiv 2608.29296, which found the same one from 512 to 8,192).
        """
        return base * math.sqrt(scaling_rollouts(self.rollouts_per_step) / scaling_rollouts(base_rollouts))


def scaling_rollouts(rollouts_per_step: float) -> float:
    """Return the rollouts of an update that its learning rate grows with."""
    return min(rollouts_per_step, LARGEST_SCALING_ROLLOUTS)


def steps_for_budget(gpu_hours: float, gpu_hours_per_step: float, start_up_gpu_hours: float = 0.0) -> int:
    """Return the whole steps that GPU-hours pay for after start-up; 0 when they do not pay for one.

    The promise `steps · gpu_hours_per_step + start_up ≤ gpu_hours` holds in floating point too: the quotient may
    round up to the next whole number, and then one step less is the answer.
    """
    if not gpu_hours_per_step > 0:
        raise InputError(f"GPU-hours per step is {gpu_hours_per_step}: it must be positive")
    steps = max(0, math.floor((gpu_hours - start_up_gpu_hours) / gpu_hours_per_step))
    while steps > 0 and steps * gpu_hours_per_step + start_up_gpu_hours > gpu_hours:
        steps -= 1
    return steps
