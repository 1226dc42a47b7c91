"""What is set for slime alone: `[trainer.options]`."""

from typing import Any

from pydantic import Field

from planner.checking import Section


class SlimeOptions(Section):
    """How slime runs, of which nothing but `settings` changes what it computes."""

    checkout: str = Field(description="the folder of slime's repository, whose train.py is started")
    megatron: str = Field(description="the folder of Megatron-LM, for PYTHONPATH")
    model_args: str = Field(description="a script with the model's MODEL_ARGS, such as scripts/models/qwen3-8B.sh")
    settings: dict[str, Any] = Field(
        {}, description="further flags with their values (true: none), which must not be ours"
    )
