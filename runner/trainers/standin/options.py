"""What can be said of a stand-in: how fast its time passes, what it writes, and what goes wrong where."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from budgets.errors import suggest
from planner.checking import Count, NotNegative, Section, explained
from planner.config.trainer import BUILTIN, COMMAND, STANDIN, TRAINERS, TrainerChoice
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

    stands_for: str = Field(STANDIN, description="whose files it writes")
    options: dict[str, Any] = Field({}, description="those of the trainer that it stands for")
    time_scale: Count = Field(1, description="seconds of its world that pass in a real one")
    gated: bool = Field(True, description="whether it waits for the next segment; else it is started for each")
    stops_on: Literal["signal", "file", "nothing"] = Field(
        "signal", description="without the gate: it saves and ends on SIGTERM, saves on request, or knows no way"
    )
    own_ray: bool = Field(False, description="whether it runs in a Ray of the trial's own, as some trainers do")
    save_every_steps: Count | None = Field(None, description="else 10, or fewer where save_seconds want it")
    checkpoint_bytes: Annotated[int, Field(ge=0)] = 0
    slow_seconds: NotNegative = Field(5.0, description="real ones, of the fault slow-start")
    faults: list[Fault] = Field([], description="what goes wrong, and where")

    @field_validator("stands_for")
    @classmethod
    def _driven(cls, name: str) -> str:
        driven = [each for each in TRAINERS if each != BUILTIN]
        if name not in driven:
            raise ValueError(f"'{name}' is no trainer that is driven: {suggest(name, driven)}")
        return name


def options_of(choice: TrainerChoice) -> StandinOptions:
    """Return the options of a trainer that is the stand-in."""
    try:
        return StandinOptions.model_validate(choice.options)
    except ValidationError as error:
        raise explained(error, StandinOptions, {}, "[trainer.options] of the stand-in") from error


def stood_for(choice: TrainerChoice | None) -> dict[str, Any]:
    """Return the options of a stand-in for a trainer: it writes what that would write."""
    if choice is None or choice.name == BUILTIN:
        return {}
    if choice.name == STANDIN:
        return dict(choice.options)
    if choice.name == COMMAND and choice.options.get("metrics", {}).get("format", "jsonl") not in ("jsonl", "csv"):
        return {}  # it writes no such files
    return {"stands_for": choice.name, "options": choice.options}
