"""What is set for OpenRLHF alone: `[trainer.options]`."""

from typing import Any

from pydantic import Field, ValidationError

from planner.checking import explained
from runner.ports.trial import TrialConfig
from runner.trainers.sharing import SharingOptions


class OpenRlhfOptions(SharingOptions):
    """How OpenRLHF runs, of which nothing but `settings` and `horizon_steps` changes what it computes."""

    settings: dict[str, Any] = Field(
        {}, description="further flags of train_ppo_ray by their names without dashes, which must not be ours"
    )


def options_of(config: TrialConfig) -> OpenRlhfOptions:
    """Return the checked options of a trial."""
    assert config.trainer is not None
    try:
        return OpenRlhfOptions.model_validate(config.trainer.options)
    except ValidationError as error:
        raise explained(error, OpenRlhfOptions, {}, "[trainer.options] of openrlhf") from error
