"""What a plan keeps to, as `rlplan.toml` has it and proposals take it: the grid's bounds, and the pilots' rules."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from planner.tables import Count, Section

USUAL = ((8, 64), (8, 128))  # n and B as recipes have them: 512 to 1,024 rollouts an update (docs/concepts/recipes.md)
CHALLENGER_SHARE = 0.05  # of all GPU-hours at most: where no look is worth LEAST_VALUE none is spent
EXPLORED_SHARE = 0.10  # of all GPU-hours, for pilots where the grid is explored: what that costs was measured with it
ALARM_SHARE = 0.10  # of all GPU-hours, where the champion's start gives alarm
PATIENCE_HOURS = 168.0  # a week: what a plan takes without being asked
LOOK_SHARE = 0.05  # of all GPU-hours: where the champion is looked at first, and how far challengers are trained

FAR_OCTAVES = 2.0  # of a champion from the usual sizes, beyond which these are the first challenger

AUTO = "auto"  # a file that overrides a share with the one that is chosen says so
Share = Annotated[float | None, Field(ge=0, lt=1), BeforeValidator(lambda share: None if share == AUTO else share)]


class GridBounds(Section):
    """The bounds of the grid; n and B take the powers of two between them."""

    fewest_rollouts_per_prompt: Annotated[int, Field(ge=2)] = Field(8, description="smallest n")
    most_rollouts_per_prompt: Count = Field(1024, description="largest n")
    fewest_prompts_per_batch: Count = Field(32, description="smallest B")
    most_prompts_per_batch: Count = Field(1024, description="largest B")
    fewest_rollouts_per_step: Count = Field(256, description="smallest n·B")
    most_rollouts_per_step: Count = Field(65_536, description="largest n·B")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for name in ("rollouts_per_prompt", "prompts_per_batch", "rollouts_per_step"):
            low, high = getattr(self, f"fewest_{name}"), getattr(self, f"most_{name}")
            if low > high:
                raise ValueError(f"grid bounds for {name.replace('_', ' ')}: {low} to {high}: give the lower one first")
        return self


class PilotRules(Section):
    """The part of the budget that buys evidence."""

    fraction: Share = Field(
        None,
        examples=[AUTO],
        description="share of the budget for challengers or pilots (--pilot-fraction); 0: none; auto: 0.05 for "
        "challengers, 0.1 where the grid is explored",
    )
    most_pilots: Annotated[int, Field(ge=2)] = Field(12, description="most configurations that get one")
    fewest_steps: Count = Field(40, description="shortest pilot that is worth starting, in update steps")
    gpus: Count | None = Field(
        None,
        examples=[8],
        description="how many GPUs a pilot gets; without it, the fewest at nearly the best price (--pilot-gpus)",
    )
    cells: Literal["informative", "all"] = Field(
        "informative", description="those that would tell cells apart, or all that carry signal (a full grid)"
    )
