"""What is set for verl alone: `[trainer.options]`."""

from typing import Any, Literal

from pydantic import Field, ValidationError

from planner.checking import Count, Positive, Section, explained
from runner.ports.trial import TrialConfig


class VerlOptions(Section):
    """How verl runs, of which nothing but `settings` changes what it computes."""

    rollout: Literal["vllm", "sglang", "trtllm"] = Field("vllm", description="whose servers generate")
    strategy: Literal["fsdp", "fsdp2"] = Field("fsdp2", description="how the model is spread over the GPUs")
    tensor_parallel: Count = Field(1, description="GPUs of one copy of the model while it generates")
    rollout_memory: Positive = Field(0.5, description="share of a GPU's memory that generating takes")
    save_steps: Count | None = Field(None, description="updates between saves; else as between validations")
    settings: dict[str, Any] = Field({}, description="further keys of verl, which must not be ours")


def options_of(config: TrialConfig) -> VerlOptions:
    """Return the checked options of a trial."""
    assert config.trainer is not None
    try:
        return VerlOptions.model_validate(config.trainer.options)
    except ValidationError as error:
        raise explained(error, VerlOptions, {}, "[trainer.options] of verl") from error
