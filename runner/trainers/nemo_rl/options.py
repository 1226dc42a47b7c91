"""What is set for NeMo-RL alone: `[trainer.options]`."""

from typing import Any

from pydantic import Field

from planner.checking import Count, Section


class NemoRlOptions(Section):
    """How NeMo-RL runs, of which nothing but `settings` changes what it computes."""

    checkout: str = Field(description="the folder of NeMo-RL's repository, whose examples/run_grpo.py is started")
    rollouts_per_pass: Count | None = Field(
        None, description="rollouts of one forward and backward pass; else by micro_batch_tokens"
    )
    settings: dict[str, Any] = Field({}, description="further keys of its own, dotted, which must not be ours")
