"""What is set for OpenRLHF alone: `[trainer.options]`."""

from typing import Any

from pydantic import Field

from runner.ports.trial import TrialConfig
from runner.trainers.driving import options_in
from runner.trainers.sharing import SharingOptions


class OpenRlhfOptions(SharingOptions):
    """How OpenRLHF runs, of which nothing but `settings` and `horizon_steps` changes what it computes."""

    settings: dict[str, Any] = Field(
        {}, description="further flags of train_ppo_ray by their names without dashes, which must not be ours"
    )


def options_of(config: TrialConfig) -> OpenRlhfOptions:
    """Return the checked options of a trial."""
    return options_in(config, OpenRlhfOptions)
