"""What is asked of `rlplan train`, and the run that comes of it: flags over the configuration file over defaults.

Of a run that goes on, what its folder says counts, and flags that say otherwise are refused.
"""

import math
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from budgets.allocation import Allocation
from budgets.errors import InputError, RlplanError, UnknownNameError
from budgets.growth import NONE, Growth
from planner.checking import Count, Section, explained
from planner.config import Layer, Resolved, embedded_tasks, file_layer, flag_layer, resolve
from planner.config.layers import DEFAULT
from planner.config.request import difficulty_and_rates, recipe_traits
from planner.config.trainer import BUILTIN
from planner.layering import flattened, merged
from planner.recipes import Recipe, load_recipe
from rlplan.actions.configuring import DEFAULT_FILE, AskedSection, load_configuration
from rlplan.wording.terminal import tell
from rlplan.wording.train_flags import TRIAL_FLAGS
from runner.machine import cpu_cores
from runner.ports.trial import TrialConfig

T = TypeVar("T")

ROLLOUTS_PER_PROMPT = 16
PROMPTS_PER_BATCH = 32
UPDATE_STEPS = 100
VALIDATIONS = 20  # about so many in a run
RUNS = Path("runs")
MACHINE = "machine."  # another machine may finish a run; the backend notes that the last bits may differ
PROBLEM_SUFFIXES = (".jsonl", ".json")


class TrainRequest(AskedSection):
    """The flags of `rlplan train`; None, or False, stands for what was not given."""

    task: str | None = None
    model: str | None = None
    reward: str | None = None
    validation: str | None = None
    recipe: str | None = None
    rollouts_per_prompt: Annotated[int, Field(ge=2)] | None = None
    prompts_per_batch: Count | None = None
    steps: Count | None = None
    growth: str | None = None
    learning_rate: float | None = None
    seed: int | None = None
    temperature: float | None = None
    response_tokens: int | None = None
    warmup: int | None = None
    validate_every: int | None = None
    problems: int | None = None
    samples: int | None = None
    engine: str | None = None
    device: str | None = None
    threads: int | None = None
    weights: str | None = None
    micro_batch_tokens: int | None = None
    compile: bool = False
    checkpoint_every: Count | None = None
    out: Path | None = None
    resume: bool = False
    from_pilot: Path | None = None
    config: Path | None = None

    @property
    def allocation(self) -> Allocation:
        """The run's size, of which the defaults of the rest follow."""
        n, B, steps = self.rollouts_per_prompt, self.prompts_per_batch, self.steps
        return Allocation(n or ROLLOUTS_PER_PROMPT, B or PROMPTS_PER_BATCH, steps or UPDATE_STEPS)

    def trial_flags(self) -> dict[str, tuple[str, Any]]:
        """Return what was given about the trial: flag and value by the key of its configuration."""
        given = ((key, flag, getattr(self, name)) for name, (flag, key) in TRIAL_FLAGS.items())
        return {
            key: (flag, _as_stored(key, value))
            for key, flag, value in given
            if value is not None and value is not False
        }


class TrainingRun(Section):
    """One training run; its config.json."""

    rlplan: str = Field(description="version that wrote it")
    update_steps: Count
    checkpoint_every: Count | None = Field(None, description="updates between checkpoints; null: at each validation")
    trial: TrialConfig


def new_run(request: TrainRequest) -> tuple[TrainingRun, Path]:
    """Return the run that is asked for and the folder it belongs into."""
    resolved, task = _configuration(request)
    if resolved.config.trainer.name != BUILTIN:
        tell(f"[trainer] {resolved.config.trainer.name} trains the trials of sweeps; `rlplan train` has rlplan's own")
    recipe = _recipe(resolved)
    layers = [Layer("default", _defaults(request, resolved, task))]
    layers += [Layer(flag, _nested(key, value)) for key, (flag, value) in request.trial_flags().items()]
    tables, sources = merged(layers)
    try:
        trial = TrialConfig.model_validate({**tables, "recipe": recipe})
    except ValidationError as error:
        raise explained(error, TrialConfig, sources, f"recipe {recipe.name}") from error
    _require_whole(trial)
    steps = request.allocation.update_steps
    run = TrainingRun(
        rlplan=version("rlplan"), update_steps=steps, checkpoint_every=request.checkpoint_every, trial=trial
    )
    return run, request.out or _default_folder(trial)


def resumed_run(request: TrainRequest, stored: TrainingRun, folder: str) -> TrainingRun:
    """Return the stored run with more steps or another machine; InputError names every flag that contradicts it."""
    steps = request.steps or stored.update_steps
    contradictions = list(_contradictions(request, stored))
    if steps < stored.update_steps:
        contradictions.append(f"--steps is {steps}, the run has {stored.update_steps}, which can only be raised")
    if request.config is not None:
        contradictions.append(f"--config {request.config} has no say: the run's own config.json counts")
    if contradictions:
        raise InputError(
            f"the run in {folder} is another one: {'; '.join(contradictions)}. Leave that out to resume it, or begin a "
            "new run with --out"
        )
    machine = {key: given for key, given in request.trial_flags().items() if key.startswith(MACHINE)}
    layers = [Layer("config.json", stored.trial.model_dump(exclude={"recipe"}))]
    layers += [Layer(flag, {"machine": {key.removeprefix(MACHINE): value}}) for key, (flag, value) in machine.items()]
    tables, sources = merged(layers)
    try:
        trial = TrialConfig.model_validate({**tables, "recipe": stored.trial.recipe})
    except ValidationError as error:
        raise explained(error, TrialConfig, sources, "config.json") from error
    every = request.checkpoint_every or stored.checkpoint_every
    return stored.model_copy(update={"trial": trial, "update_steps": steps, "checkpoint_every": every})


def validation_steps(steps: int) -> int:
    """Return the updates between validations: about 20 in the run, and the last of them at its end if that can be."""
    few = math.ceil(2 * steps / (3 * VALIDATIONS))
    many = max(few, 3 * steps // (2 * VALIDATIONS))
    return min(range(few, many + 1), key=lambda every: (steps % every, abs(every - steps / VALIDATIONS), -every))


def _configuration(request: TrainRequest) -> tuple[Resolved, str]:
    """Merge defaults, embedded task, file and flags; a task of one's own takes nothing from an embedded one."""
    flags = {
        "recipe.name": ("--recipe", request.recipe),
        "validation.problems": ("--problems", request.problems),
        "validation.samples": ("--samples", request.samples),
    }
    if request.task is None or request.task in embedded_tasks():
        resolved = load_configuration(request.config, request.task, flags)
        if resolved.config.workload.task is None:
            raise InputError(
                f"no task given: --task takes {', '.join(embedded_tasks())}, or the path of a JSONL file of problems"
            )
        return resolved, resolved.config.workload.task
    path = Path(request.task).expanduser()
    if not (path.suffix in PROBLEM_SUFFIXES or path.exists() or path.name != request.task):
        raise UnknownNameError("task", request.task, embedded_tasks(), "The path of a JSONL file works too")
    file = request.config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    return resolve([*([file_layer(file)] if file else []), *flag_layer(flags)]), request.task


def _require_whole(trial: TrialConfig) -> None:
    """Refuse problems of one's own without what an embedded task brings along."""
    given = {"--model FOLDER": trial.task.model, "--response-tokens": trial.task.max_response_tokens}
    missing = [flag for flag, value in given.items() if value is None]
    if missing and trial.task.name not in embedded_tasks():
        raise InputError(
            f"--task {trial.task.name} needs {' and '.join(missing)} too: problems of your own bring neither a model "
            "nor a length at which responses are cut"
        )


def _recipe(resolved: Resolved) -> Recipe:
    """Return the recipe that was named, or the one that `rlplan propose` would price."""
    name = resolved.config.recipe.name
    return load_recipe(name or recipe_traits(resolved.config, difficulty_and_rates(resolved.config)[0]).name)


def _defaults(request: TrainRequest, resolved: Resolved, task: str) -> dict[str, Any]:
    config = resolved.config
    allocation = request.allocation
    own = task not in embedded_tasks()

    def in_file(key: str, value: T) -> T | None:
        """Return a value that the user's file gives."""
        beneath = (DEFAULT, "this machine", f"task {config.workload.task}")
        return None if resolved.source(key) in beneath else value

    device = request.device or (_device() if own else "cpu")
    every_rollouts = in_file("validation.every_rollouts", config.validation.every_rollouts)
    every_steps = in_file("validation.every_steps", config.validation.every_steps)
    every = every_steps or validation_steps(allocation.update_steps)
    of_own = {
        "model": in_file("workload.model", config.workload.model),
        "max_response_tokens": in_file("workload.response_tokens", config.workload.response_tokens),
    }
    return {
        "task": {"name": task, **(of_own if own else {"reward": "exact"})},
        "rollouts_per_prompt": allocation.rollouts_per_prompt,
        "prompts_per_batch": allocation.prompts_per_batch,
        "learning_rate": allocation.learning_rate(config.recipe.learning_rate, config.recipe.learning_rate_rollouts),
        "validation": {
            "problems": config.validation.problems,
            "samples": config.validation.samples,
            "every_rollouts": every_rollouts or _rollouts_between(allocation, every, request.growth),
        },
        "machine": {
            "device": device,
            "weights": "bfloat16" if device == "cuda" else "float32",
            "threads": cpu_cores() if own else 1,  # more threads slow a tiny model down
        },
    }


def _rollouts_between(allocation: Allocation, every: int, growth: str | None) -> int:
    """Return the rollouts between validations so many updates apart; a batch that grows makes as many of them."""
    known = Growth.named(growth or NONE)
    if known is None:
        return allocation.rollouts_per_step * every
    n, B, updates = allocation.rollouts_per_prompt, allocation.prompts_per_batch, allocation.update_steps
    return max(1, known.rollouts(n, B, updates) // max(1, round(updates / every)))


def _default_folder(trial: TrialConfig) -> Path:
    growth = f"-{trial.growth}" if trial.growth else ""
    return RUNS / (
        f"{Path(trial.task.name).stem}-{trial.recipe.name}-n{trial.rollouts_per_prompt}-B{trial.prompts_per_batch}"
        f"{growth}-seed{trial.seed}"
    )


def _as_stored(key: str, value: Any) -> Any:
    """Write paths in full, since a run is resumed from any directory, and a growth by its one name."""
    if key == "growth":
        growth = Growth.named(value)
        return growth.name if growth else None
    if key in ("task.model", "task.validation_file") or (key == "task.name" and value not in embedded_tasks()):
        return str(Path(value).expanduser().absolute())
    if key == "task.reward" and ".py:" in value:
        return str(Path(value).expanduser().absolute())
    return value


def _nested(key: str, value: Any) -> dict[str, Any]:
    section, _, name = key.rpartition(".")
    return {section: {name: value}} if section else {name: value}


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _contradictions(request: TrainRequest, stored: TrainingRun) -> Iterator[str]:
    known = dict(flattened(stored.trial.model_dump()))
    for key, (flag, value) in request.trial_flags().items():
        if not key.startswith(MACHINE) and value != known[key]:
            yield f"{flag} is {value}, the run has {known[key]}"
    if request.recipe is not None:
        yield from _other_recipe(request.recipe, stored)


def _other_recipe(given: str, stored: TrainingRun) -> Iterator[str]:
    own = stored.trial.recipe
    if given == own.name:
        return  # the values stand in config.json, whatever has become of the recipe since
    try:
        recipe = load_recipe(given)
    except RlplanError as error:
        yield f"--recipe: {error}"
        return
    if recipe.name != own.name:
        yield f"--recipe is {recipe.name}, the run has {own.name}"
        return
    mine, its = (dict(flattened(each.model_dump(exclude={"summary", "sources"}))) for each in (recipe, own))
    changed = [f"{key} = {mine[key]}, the run has {its[key]}" for key in mine if mine[key] != its[key]]
    if changed:
        yield f"--recipe {given} has {'; '.join(changed)}"
