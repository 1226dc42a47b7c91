"""What is set for TRL alone: `[trainer.options]`."""

from typing import Any

from pydantic import Field, ValidationError

from planner.checking import Count, Positive, Section, explained
from runner.ports.trial import TrialConfig


class TrlOptions(Section):
    """How TRL runs, of which nothing but `settings` changes what it computes."""

    hold: bool = Field(True, description="wait at a segment's end with the model in memory; false: save and end")
    rollouts_per_pass: Count | None = Field(
        None, description="rollouts of one forward and backward pass; else by micro_batch_tokens"
    )
    save_seconds: Positive = Field(600.0, description="between saves within a segment")
    accelerate: str | None = Field(None, description="accelerate's configuration file, for FSDP or DeepSpeed")
    vllm_memory: Positive = Field(0.3, description="share of a GPU's memory that colocated vLLM takes")
    settings: dict[str, Any] = Field({}, description="further arguments of GRPOConfig, which must not be ours")


def options_of(config: TrialConfig) -> TrlOptions:
    """Return the checked options of a trial."""
    assert config.trainer is not None
    try:
        return TrlOptions.model_validate(config.trainer.options)
    except ValidationError as error:
        raise explained(error, TrlOptions, {}, "[trainer.options] of trl") from error
