"""Which trainer trains a trial: plain checked data, as it stands in rlplan.toml and is stored with each trial."""

from typing import Any

from pydantic import Field, field_validator

from budgets.errors import suggest
from planner.checking import Positive, Section

BUILTIN = "builtin"
TRAINERS = (BUILTIN, "command", "trl", "standin")


class Patience(Section):
    """After how many seconds without a sign of life a trainer hangs."""

    start_up_seconds: Positive = Field(1800.0, description="from its start to its first line of metrics")
    least_seconds: Positive = Field(600.0, description="without a new line, however short its steps are")
    median_steps: Positive = Field(5.0, description="without a new line, in median steps, where that is longer")
    pause_seconds: Positive = Field(1800.0, description="without a new line where a validation or a save is due")
    stop_seconds: Positive = Field(120.0, description="from being asked to stop to being killed")


class TrainerChoice(Section):
    """Whose code trains, in which environment, and how long it may be silent."""

    name: str = Field(BUILTIN, description="builtin, command, trl or standin (--trainer)")
    python: str | None = Field(
        None, examples=["/opt/trl/bin/python"], description="the interpreter of the trainer's own environment"
    )
    launcher: str | None = Field(
        None, examples=["apptainer exec image.sif"], description="what stands before the trainer's command"
    )
    patience: Patience = Field(default_factory=Patience)
    options: dict[str, Any] = Field({}, description="what this trainer alone knows; docs/trainers.md has the keys")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in TRAINERS:
            raise ValueError(f"'{name}' is no trainer that rlplan can drive: {suggest(name, TRAINERS)}")
        return name
