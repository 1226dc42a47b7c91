"""The configuration: every value that a user can set, with its unit in the name and its default.

`rlplan init` writes these descriptions and defaults as a commented file, so a field is explained here and nowhere else.
"""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from budgets.hardware import LARGEST_BUDGET_GPU_HOURS
from planner.config.cluster import ClusterSection, SlurmSection, TrackingSection
from planner.config.cost import CostSection
from planner.config.task import TaskSection
from planner.config.trainer import TrainerChoice
from planner.metrics import Kind, Metric
from planner.rules import GridBounds, PilotRules
from planner.tables import Count, NotNegative, Positive, Section

SIZES = re.compile(r"\s*n\s*=\s*(\d{1,6})\s*,\s*B\s*=\s*(\d{1,6})\s*", re.IGNORECASE)


def named_sizes(text: str) -> tuple[tuple[int, int], ...]:
    """Return each n and B of a text such as n=8,B=64 or n=8,B=128; ValueError for anything else."""
    matches = [SIZES.fullmatch(match) for match in re.split(r"\bor\b", text)]
    sizes = tuple(dict.fromkeys((int(match[1]), int(match[2])) for match in matches if match is not None))
    if None in matches or any(n < 2 or B < 1 for n, B in sizes):
        raise ValueError(
            f"'{text[:40]}' does not name n (2 or more) and B (1 or more): write them like n=16,B=128, "
            "and several like n=8,B=64 or n=8,B=128"
        )
    return sizes


HOURS = {"m": 1 / 60, "h": 1.0, "d": 24.0, "w": 168.0}
WALL_TIME = re.compile(r"\s*(?:\d+(?:\.\d+)?\s*[mhdw]\s*)+", re.IGNORECASE)


def named_hours(text: str) -> float:
    """Return the hours of a wall time such as 5d, 36h or 1d12h; ValueError for anything else, and for none."""
    if WALL_TIME.fullmatch(text):
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*([mhdw])", text, re.IGNORECASE)
        hours = sum(float(number) * HOURS[unit.lower()] for number, unit in parts)
        if 0 < hours < 1e6:
            return float(hours)
    raise ValueError(f"'{text[:40]}' is no wall time: write it like 5d, 36h, 1d12h or 90m, more than none")


def _kept_as_written(read: Callable[[str], object]) -> AfterValidator:
    """Refuse a text that cannot be read."""

    def check(text: str) -> str:
        read(text)
        return text

    return AfterValidator(check)


class BudgetSection(Section):
    """What may be spent."""

    gpu_hours: Annotated[Positive, Field(le=LARGEST_BUDGET_GPU_HOURS)] | None = Field(
        None, examples=[5000.0], description="GPU-hours for pilots and final run together (--budget)"
    )
    dollars: Positive | None = Field(
        None, examples=[20000.0], description="or their price, at the GPU's dollars_per_hour (--budget '$20000')"
    )
    within: Annotated[str, _kept_as_written(named_hours)] | None = Field(
        None,
        examples=["5d"],
        description="wall time by whose end pilots and final run are to be done, on the GPUs that there are (--within)",
    )


class WorkloadSection(Section):
    """What is trained, on which prompts."""

    task: str | None = Field(
        None,
        examples=["sum-easy"],
        description="an embedded task, such as sum-easy; sets the model, lengths and hardware (--task)",
    )
    model: str = Field(
        "qwen3-8b", description="a model of the catalogue or the hub, or a path to a config.json (--model)"
    )
    prompt_tokens: Positive = Field(256, description="mean tokens of a prompt")
    image_tokens: NotNegative = Field(
        0, examples=[392.0], description="mean tokens of a prompt's images beside: pixels ÷ 28², of Qwen3-VL ÷ 32²"
    )
    response_tokens: Count = Field(8192, description="most tokens of a response, where it is cut (--response-tokens)")
    mean_response_tokens: Positive | None = Field(
        None,
        examples=[3300.0],
        description="mean tokens of a response (--mean-response-tokens); without it, what is expected of the kind of "
        "model, the difficulty and the most",
    )
    response_spread: Annotated[float, Field(ge=0, le=3)] = Field(
        0.6, description="log standard deviation of response lengths; 0 = all alike"
    )
    turns: Count | None = Field(
        None,
        examples=[4],
        description="mean turns of a rollout in an environment, such as calls of tools (--turns); without it, what is "
        "expected of most_turns",
    )
    most_turns: Count = Field(1, examples=[10], description="most turns that a rollout may have")
    turn_tokens: Count | None = Field(
        None, examples=[512], description="most tokens of a turn; without it, those of the response bound them together"
    )
    no_thinking: bool = Field(
        False, description="whether the template keeps a hybrid model, such as qwen3-8b, from thinking"
    )
    tool_seconds: NotNegative | None = Field(
        None,
        examples=[0.5],
        description="mean seconds that the environment takes for a turn (--tool-seconds); without it, 1 where there "
        "are several turns",
    )
    tool_tokens: NotNegative = Field(0.0, description="mean tokens that the environment answers a turn with")
    environments: Count | None = Field(
        None, examples=[256], description="rollouts that environments play at once; without it, all of a batch"
    )
    prompt_set_size: Count = Field(
        6000, description="prompts to train on; as many as pass_rates_file has rates, unless it is set"
    )
    difficulty: str | None = Field(
        None,
        examples=["hard"],
        description="easy, medium, hard or mixed: the band of base pass rates (--difficulty); without it, easy",
    )
    pass_rate: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, examples=[0.3], description="mean pass rate of the base model, instead of a difficulty (--pass-rate)"
    )
    pass_rates_file: str | None = Field(
        None,
        examples=["pass_rates.txt"],
        description="a file with one pass rate per prompt, instead of either; lines, CSV or JSON (--pass-rates-file)",
    )


class ValidationSection(Section):
    """The fixed problems on which a score is measured."""

    problems: Count = Field(300, description="held-out problems")
    samples: Count = Field(4, description="answers to each; the score is their mean")
    every_steps: Count = Field(10, description="updates between validations, in whole batches")
    every_rollouts: Count | None = Field(
        None, examples=[4096], description="rollouts between validations instead, so that every n·B is scored as often"
    )
    metric: Kind = Field(
        "mean", description="what configurations are compared by: mean, best or worst of the answers to a problem"
    )
    metric_k: Count | None = Field(
        None,
        examples=[4],
        validate_default=True,
        description="answers of which the best or the worst counts; without it, all",
    )

    @field_validator("metric_k")
    @classmethod
    def _measured(cls, k: int | None, others: ValidationInfo) -> int | None:
        if {"metric", "samples"} <= others.data.keys():  # else they are refused themselves
            Metric.chosen(others.data["metric"], k, others.data["samples"])
        return k


class HardwareSection(Section):
    """The machine."""

    gpu: str = Field("h100", description="a GPU of the catalogue, or one of your own below (--gpu)")
    gpus: Count | None = Field(
        None,
        examples=[32],
        description="how many there are (--gpus); without it those that are found here, else as few whole nodes as "
        "end the budget within a week, or budget.within, by powers of two",
    )
    gpus_per_trial: Count | None = Field(
        None,
        examples=[8],
        description="how many the final run gets (--gpus-per-trial); without it, those on which it is expected "
        "to end highest: by the deadline, else within a week",
    )
    count_busy_only: bool = Field(
        False,
        description="whether the final run may have a part of a node, whose other GPUs are somebody else's; else it "
        "gets whole nodes, which are what is paid (--count-busy-only)",
    )
    gpus_per_node: Count | None = Field(
        None, examples=[4], description="how many a node has; without it, the catalogue's figure, 8"
    )


class RecipeSection(Section):
    """How it is trained, apart from the allocation."""

    name: str = Field(
        "grpo", examples=["scalerl"], description="a shipped recipe, or the path of a .toml file of your own (--recipe)"
    )
    learning_rate: Positive = Field(1e-6, description="learning rate at the anchor batch")
    learning_rate_rollouts: Count = Field(
        1024, description="rollouts per step of the anchor batch; other batches scale the rate by the square root"
    )


class AxesSection(Section):
    """What else configurations may differ in beside n and B; an axis with one value is none."""

    recipes: list[str] | None = Field(
        None, examples=[["easy", "scalerl"]], description="recipes to compare, instead of recipe.name (--recipes)"
    )
    models: list[str] | None = Field(
        None,
        examples=[["qwen3-4b", "qwen3-8b"]],
        description="base models to compare, instead of workload.model: names, or local folders (--models)",
    )
    growths: list[str] | None = Field(
        None, examples=[["none", "4x"]], description="ways in which the batch grows to B during a run, to compare"
    )
    learning_rates: list[Positive] | None = Field(
        None, examples=[[0.3, 1.0, 3.0]], description="factors on the learning rate to compare"
    )
    learning_rate_range: list[Positive] | None = Field(
        None, examples=[[0.3, 3.0]], description="or its least and largest factor, between which the sweep searches"
    )


class ProposalSection(Section):
    """Which run comes first, and whether others are tried beside it."""

    baseline: Annotated[str, _kept_as_written(named_sizes)] = Field(
        "n=8,B=64 or n=8,B=128",
        description="rollouts per prompt and prompts per batch of the champion, which is trained first (--champion); "
        "of several the first is, and the rows of the others are shown too",
    )
    learning_rate: Positive | None = Field(
        None,
        examples=[1e-6],
        description="learning rate of the champion (--from); without it, the rule's at its n and B",
    )
    explore: bool = Field(False, description="short runs all over the grid instead of a champion (--explore)")
    alone: bool = Field(False, description="no challengers: the champion has all GPU-hours (--alone)")
    advised: bool = Field(False, description="the usual sizes are the champion, whatever others are given (--advised)")


class StorageSection(Section):
    """Where a copy of each trial is kept, so that it can go on on any machine."""

    url: str | None = Field(
        None,
        examples=["s3://bucket/path"],
        description="checkpoints and points go to this URL of fsspec; without it, to the folder alone (--storage)",
    )


class Config(Section):
    """The whole file."""

    budget: BudgetSection = Field(default_factory=BudgetSection)
    workload: WorkloadSection = Field(default_factory=WorkloadSection)
    validation: ValidationSection = Field(default_factory=ValidationSection)
    hardware: HardwareSection = Field(default_factory=HardwareSection)
    recipe: RecipeSection = Field(default_factory=RecipeSection)
    cost: CostSection = Field(default_factory=CostSection)
    grid: GridBounds = Field(default_factory=GridBounds)
    proposal: ProposalSection = Field(default_factory=ProposalSection)
    pilot: PilotRules = Field(default_factory=PilotRules)
    axes: AxesSection = Field(default_factory=AxesSection)
    task: TaskSection = Field(default_factory=TaskSection)
    trainer: TrainerChoice = Field(default_factory=TrainerChoice)
    storage: StorageSection = Field(default_factory=StorageSection)
    cluster: ClusterSection = Field(default_factory=ClusterSection)
    tracking: TrackingSection = Field(default_factory=TrackingSection)
    slurm: SlurmSection = Field(default_factory=SlurmSection)
    gpus: dict[str, dict[str, Any]] = Field(default_factory=dict, description="GPUs of your own")
    models: dict[str, dict[str, Any]] = Field(default_factory=dict, description="models of your own")


HEADER = """\
## What rlplan plans for. '# key = value' is a default: remove the '#' and change the value. '## key = value' is an
## example for a key that has none: without it, what its description says happens.
## A flag on the command line wins over this file, this file wins over the defaults.
"""

OWN_ENTRIES = """\
## A GPU or a model of your own takes the same keys as those of the catalogue:
## [gpus.my-gpu]
## memory_gb = 96
## bandwidth_gb_per_s = 4000
## dense_tflops = 900
## link_gb_per_s = 400
## decode_overhead_ms = 3.0
## layer_overhead_us = 30
## fixed_overhead_s = 4.0
## start_up_s = 180
## dollars_per_hour = 2.0
"""


def template() -> str:
    """Return a commented rlplan.toml that changes nothing, also when one '#' is removed from each line."""
    parts = [HEADER]
    for name, field in Config.model_fields.items():
        parts += _tables(name, field)
    return "\n".join([*parts, OWN_ENTRIES])


def _tables(name: str, field: FieldInfo) -> list[str]:
    """Return a table with its keys, and those within it; nothing for a field that is no section."""
    section = field.annotation
    if not (isinstance(section, type) and issubclass(section, Section)):
        return []
    lines = [f"## {(section.__doc__ or '').strip().splitlines()[0]}", f"[{name}]"]
    within: list[str] = []
    for key, inner in section.model_fields.items():
        if tables := _tables(f"{name}.{key}", inner):
            within += tables
        else:
            default, example = inner.default, (inner.examples or [""])[0]
            setting = f"## {key} = {_toml(example)}" if default is None else f"# {key} = {_toml(default)}"
            lines += [f"## {inner.description}", setting]
    return ["\n".join(lines) + "\n", *within]


def _toml(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str | bool | list) else f"{value}"
