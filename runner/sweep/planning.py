"""From a stored plan to a sweep: what all trials have in common, which trials there are, and what a worker occupies."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from budgets.errors import InputError, NotFoundError
from planner.checking import explained
from planner.config import embedded_tasks
from planner.recipes import load_recipe
from planner.store.records import NewTrial
from planner.store.schema import Plan
from runner.sweep.spec import Resources, SweepSpec, Training

CPU = "cpu"
MOST_GPUS_OF_A_TRIAL = 1  # the trainer of this package is one process


@dataclass(frozen=True, slots=True)
class TrainingChoice:
    """What a plan does not say about the training: needed for problems and a model of one's own."""

    problems: str | None = None
    model: str | None = None
    reward: str | None = None
    validation: str | None = None
    engine: str | None = None
    device: str | None = None
    weights: str | None = None
    micro_batch_tokens: Any = None
    simulation: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SweepChoice:
    """How a plan is to be run."""

    policy: str
    folder: Path
    search: str | None = None
    seed: int = 0
    workers: int | None = None
    retries: int = 3
    training: TrainingChoice = field(default_factory=TrainingChoice)


def sweep_spec(plan: Plan, choice: SweepChoice) -> SweepSpec:
    """Return the settings of a sweep of the plan; InputError when it cannot be run as it was planned."""
    hardware = plan.hardware
    per_trial = int(hardware["gpus_per_trial"])
    on_cpu = hardware["gpu"] == CPU
    if not on_cpu and per_trial > MOST_GPUS_OF_A_TRIAL:
        raise InputError(
            f"{plan.name} gives each trial {per_trial} {hardware['gpu']}, and the trainer of rlplan uses one: make a "
            "plan with --gpus-per-trial 1"
        )
    fitting = int(hardware["gpus"]) // per_trial
    given = {
        "policy": choice.policy,
        "search": choice.search,
        "seed": choice.seed,
        "pilot_gpu_hours": plan.pilot_gpu_hours,
        "target_gpu_hours": plan.final_gpu_hours,
        "workers": fitting if choice.workers is None else choice.workers,
        "retries": choice.retries,
        "folder": str(choice.folder.expanduser().absolute()),
        "resources": Resources(
            gpu=hardware["gpu"],
            slots=per_trial,
            cpus=float(per_trial if on_cpu else 1),
            gpus=0.0 if on_cpu else per_trial,
        ).model_dump(),
        "training": _training(plan, choice.training, on_cpu=on_cpu).model_dump(),
    }
    try:
        return SweepSpec.model_validate(given)
    except ValidationError as error:
        raise explained(
            error, SweepSpec, {"workers": "--workers", "retries": "--retries", "seed": "--seed"}, "the plan"
        ) from error


def new_trials(spec: SweepSpec, plan: Plan) -> list[NewTrial]:
    """Return a trial for every cell of the plan that gets a pilot, in the order of their rank."""
    trials = []
    for candidate in plan.candidates:
        if candidate.pilot_steps == 0:
            continue
        n, B = candidate.rollouts_per_prompt, candidate.prompts_per_batch
        config = spec.trial(n, B, candidate.learning_rate, spec.seed)
        trials.append(
            NewTrial(
                name=trial_name(n, B, spec.seed),
                rollouts_per_prompt=n,
                prompts_per_batch=B,
                learning_rate=candidate.learning_rate,
                recipe=spec.training.recipe.name,
                seed=spec.seed,
                config=config.model_dump(mode="json"),
                candidate_id=candidate.id,
            )
        )
    if not trials:
        raise NotFoundError(f"{plan.name} grants no pilots: there is nothing to run. Propose with a larger --budget")
    return trials


def trial_name(rollouts_per_prompt: int, prompts_per_batch: int, seed: int) -> str:
    """Name a trial, and the folder that it keeps its files in."""
    return f"n{rollouts_per_prompt}-B{prompts_per_batch}-s{seed}"


def shortfall(spec: SweepSpec, plan: Plan, cpus: float, gpus: float) -> str | None:
    """Say what a plan's trial needs that is not there, and what would fit; None when it fits."""
    need = spec.resources
    lacking = []
    if need.cpus > cpus:
        lacking.append(f"{need.cpus:g} CPU cores where {cpus:g} are")
    if need.gpus > gpus:
        lacking.append(f"{need.gpus:g} {need.gpu} where {gpus:g} GPUs are")
    if not lacking:
        return None
    fits = f"--gpus {gpus:g}" if gpus >= 1 else "--task sum-easy, which runs on the CPU"
    return (
        f"each trial of {plan.name} needs {' and '.join(lacking)}: join a larger cluster with --ray-address, or make a "
        f"plan that fits with rlplan propose {fits}"
    )


def _training(plan: Plan, choice: TrainingChoice, *, on_cpu: bool) -> Training:
    task: str | None = plan.config["workload"]["task"]
    simulated = choice.simulation is not None
    own = choice.problems is not None
    if not (own or simulated or task in embedded_tasks()):
        raise InputError(
            f"{plan.name} was made for {plan.workload['model']}, and what is to be trained on is not known: give "
            "--problems FILE.jsonl and --model FOLDER (a local checkpoint), or plan an embedded task with "
            f"rlplan propose --task {' | '.join(embedded_tasks())}"
        )
    if own and choice.model is None:
        raise InputError("--problems needs --model FOLDER too: problems of your own bring no model")
    if own:
        chosen = {
            "name": _absolute(choice.problems),
            "model": _absolute(choice.model),
            "validation_file": _absolute(choice.validation),
            "max_response_tokens": plan.workload["response_tokens"],
        } | ({"reward": _absolute_reward(choice.reward)} if choice.reward else {})
    else:
        chosen = {"name": task or "sum-easy", "reward": "exact"}
    device = choice.device or ("cpu" if on_cpu else "cuda")
    machine = {
        "device": device,
        "engine": choice.engine or "torch",
        "weights": choice.weights or ("bfloat16" if device == "cuda" else "float32"),
        "gpus": int(plan.hardware["gpus_per_trial"]),
        **({"micro_batch_tokens": choice.micro_batch_tokens} if choice.micro_batch_tokens else {}),
    }
    validation = plan.config["validation"]
    given = {
        "task": chosen,
        "recipe": load_recipe(_recipe(plan)).model_dump(),
        "validation": {name: validation[name] for name in ("problems", "samples", "every_steps", "every_rollouts")},
        "machine": machine,
        "simulation": choice.simulation,
    }
    flags = {
        "task.reward": "--reward",
        "machine.device": "--device",
        "machine.engine": "--engine",
        "machine.weights": "--weights",
    }
    try:
        return Training.model_validate(given)
    except ValidationError as error:
        raise explained(error, Training, flags, "the plan") from error


def _recipe(plan: Plan) -> str:
    """Return the name or path that the plan was made with, or the shipped recipe that it fell to."""
    return str(plan.config["recipe"]["name"] or plan.recipe)


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def _absolute_reward(reward: str) -> str:
    return str(Path(reward).expanduser().absolute()) if ".py:" in reward else reward
