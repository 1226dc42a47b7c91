"""What can be said of a stand-in: how fast its time passes, when it saves, and what goes wrong where."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from planner.checking import Count, NotNegative, Section, explained
from planner.config.trainer import TrainerChoice
from runner.ports.trial import TrialConfig


class Fault(Section):
    """Something that goes wrong in one update of a trial."""

    kind: Literal[
        "hang", "out-of-memory", "nan", "torn-checkpoint", "cut-line", "slow-start", "deaf", "killed", "refused", "fall"
    ]
    at_step: Annotated[int, Field(ge=0)] = 1
    attempts: Annotated[int, Field(ge=0)] = Field(1, description="the first so many of a trial; 0: all")
    rollouts_per_prompt: Count | None = Field(None, description="of the trials that it befalls; without it, of all")
    prompts_per_batch: Count | None = None
    seed: Annotated[int, Field(ge=0)] | None = None

    def befalls(self, config: TrialConfig, attempt: int) -> bool:
        """Whether it goes wrong in this attempt of this trial."""
        names = ("rollouts_per_prompt", "prompts_per_batch", "seed")
        mine = all(getattr(self, name) in (None, getattr(config, name)) for name in names)
        return mine and (not self.attempts or attempt <= self.attempts)


class StandinOptions(Section):
    """[trainer.options] of the stand-in."""

    time_scale: Count = Field(1, description="seconds of its world that pass in a real one")
    gated: bool = Field(True, description="whether it waits for the next segment; else it is started for each")
    stops_on: Literal["signal", "file", "nothing"] = Field(
        "signal", description="without the gate: it saves and ends on SIGTERM, saves on request, or knows no way"
    )
    save_every_steps: Count | None = Field(None, description="else 10, or fewer where save_seconds want it")
    checkpoint_bytes: Annotated[int, Field(ge=0)] = 0
    slow_seconds: NotNegative = Field(5.0, description="real ones, of the fault slow-start")
    faults: list[Fault] = Field([], description="what goes wrong, and where")
    driver: str | None = Field(None, description="module:class of another StandinDriver, as tests of a driver have one")
    options: dict[str, Any] = Field({}, description="those of that driver")


def options_of(choice: TrainerChoice) -> StandinOptions:
    """Return the options of a trainer that is the stand-in."""
    try:
        return StandinOptions.model_validate(choice.options)
    except ValidationError as error:
        raise explained(error, StandinOptions, {}, "[trainer.options] of the stand-in") from error
