"""What is set for SkyRL alone: `[trainer.options]`."""

from typing import Any

from pydantic import Field

from runner.ports.trial import TrialConfig
from runner.trainers.driving import options_in
from runner.trainers.sharing import SharingOptions


class SkyRlOptions(SharingOptions):
    """How SkyRL runs, of which nothing but `settings` and `horizon_steps` changes what it computes."""

    settings: dict[str, Any] = Field(
        {}, description="further keys of SkyRLTrainConfig by their dotted names, which must not be ours"
    )


def options_of(config: TrialConfig) -> SkyRlOptions:
    """Return the checked options of a trial."""
    return options_in(config, SkyRlOptions)
