"""What all trials of a plan have in common: what they are trained on, on which machine, and how they are scored."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from budgets import catalogue
from budgets.errors import InputError
from planner.config import embedded_tasks
from planner.config.trainer import COMMAND, TrainerChoice, is_service
from planner.recipes import load_recipe
from planner.store.schema import Plan
from planner.tables import explained
from runner.sweep.plan_rows import (
    absolute,
    checkpoints,
    compared_models,
    compared_recipes,
    nodes_of,
    pilot_gpus,
    tried_recipes,
)
from runner.sweep.spec import Training

if TYPE_CHECKING:
    from runner.sweep.plan import SweepChoice

Values = Mapping[str, Any]


def training_of(plan: Plan, choice: "SweepChoice", trainer: TrainerChoice | None, *, on_cpu: bool) -> Training:
    """Return what all trials of the plan have in common."""
    described = trainer is not None and trainer.name == COMMAND
    scoring = _scoring(plan, choice)
    trains_on_own = _trains_on_own(plan, choice, trainer, scoring)
    models = checkpoints(plan, choice.model) if trains_on_own or described else {}
    if trains_on_own and choice.model is None and not (models or described):
        raise InputError(
            "--problems needs --model too, the folder of a checkpoint or its name on the hub, such as Qwen/Qwen3-8B"
        )
    recipes = [load_recipe(name) for name in (*compared_recipes(plan), *tried_recipes(plan))]
    settings = {
        "task": _own_task(plan, choice, scoring, models)
        if trains_on_own
        else _known_task(plan, choice, scoring, trainer),
        "recipe": recipes[0].model_dump(),
        "recipes": {recipe.name: recipe.model_dump() for recipe in recipes} if len(recipes) > 1 else {},
        "models": models,
        "validation": _validation(plan, choice, trainer),
        "machine": _machine(plan, choice, trainer, on_cpu=on_cpu),
        "simulation": choice.simulation,
        "trainer": _priced(trainer, plan).model_dump() if trainer else None,
    }
    keys = ("task.reward", "machine.device", "machine.engine", "machine.weights")
    flags = {key: f"--{key.partition('.')[2]}" for key in keys}
    try:
        return Training.model_validate(settings)
    except ValidationError as error:
        raise explained(error, Training, flags, "the plan") from error


def _priced(trainer: TrainerChoice, plan: Plan) -> TrainerChoice:
    """Return the trainer with what its tokens cost, where it is a service."""
    prices = plan.config.get("cost", {}).get("per_million") or {}
    if not is_service(trainer) or not any(prices.values()):
        return trainer
    return trainer.model_copy(update={"options": {"per_million": prices, **trainer.options}})


def _has_own(trainer: TrainerChoice | None) -> bool:
    """Whether the trainer's own file says what is trained on."""
    return trainer is not None and not trainer.takes_problems


def _trains_on_own(plan: Plan, choice: "SweepChoice", trainer: TrainerChoice | None, scoring: Values) -> bool:
    """Whether the user's own problems are trained on; InputError where it is not known what else."""
    task, names = plan.config["workload"]["task"], embedded_tasks()
    simulated = choice.simulation is not None or _has_own(trainer)
    has_own_problems = choice.problems is not None or bool(scoring["data"] and task not in names and not simulated)
    if not (has_own_problems or simulated or task in names):
        raise InputError(
            f"{plan.name} was made for {plan.workload['model']}, and what is to be trained on is not known: give "
            "--problems FILE.jsonl and --model (a local folder, or a name of the hub), or plan an embedded task with "
            f"rlplan propose --task {' | '.join(names)}"
        )
    if compared_models(plan) and not (has_own_problems or simulated):
        raise InputError(
            f"{plan.name} compares base models, and the embedded task '{task}' has its own: give --problems "
            "FILE.jsonl, or make a plan of one model"
        )
    return has_own_problems


def _own_task(plan: Plan, choice: "SweepChoice", scoring: Values, models: Mapping[str, str]) -> dict[str, Any]:
    """Return the task of the user's own problems."""
    return {
        **scoring,
        "name": _folder_or_name(choice.problems) or scoring["data"][0]["path"],
        "model": next(iter(models.values()), None) or _folder_or_name(choice.model),
        "validation_file": _folder_or_name(choice.validation),
        "max_response_tokens": plan.workload["response_tokens"],
    }


def _known_task(plan: Plan, choice: "SweepChoice", scoring: Values, trainer: TrainerChoice | None) -> dict[str, Any]:
    """Return an embedded task, or one that a trainer's own file describes, with what that does not say."""
    task: str | None = plan.config["workload"]["task"]
    keys = ["temperature", "top_p", "validation_temperature", "validation_top_p"]  # count for it too
    keys += ["reward_range"] if trainer is not None and trainer.scores_itself else []
    chosen = {
        **{key: scoring[key] for key in keys if key in scoring},
        "name": task or "sum-easy",
        "reward": "exact",
    }
    if trainer is not None and _has_own(trainer):
        chosen |= {"name": task or trainer.name, "model": _folder_or_name(choice.model)}
        chosen |= {"reward": _absolute_reward(choice.reward)} if choice.reward else {}
        chosen["max_response_tokens"] = None if task else plan.workload["response_tokens"]
        chosen |= {key: scoring[key] for key in ("prompt_length", "chat_template") if key in scoring}
    return chosen


def _machine(plan: Plan, choice: "SweepChoice", trainer: TrainerChoice | None, *, on_cpu: bool) -> dict[str, Any]:
    """Return what a pilot runs on."""
    device = choice.device or ("cpu" if on_cpu else "cuda")
    if trainer is not None and device == "cuda":
        trainer.require_gpus_inside()
    return {
        "device": device,
        "engine": choice.engine or ("vllm" if device == "cuda" and trainer is not None else "torch"),
        "weights": choice.weights or ("bfloat16" if device == "cuda" else "float32"),
        "gpus": (gpus := pilot_gpus(plan)),
        "nodes": 1 if is_service(trainer) else nodes_of(plan, gpus),
        "memory_gb": catalogue.gpu(plan.hardware["gpu"], plan.config.get("gpus")).memory_gb,
        **({"micro_batch_tokens": choice.micro_batch_tokens} if choice.micro_batch_tokens else {}),
        **{key: value for key, value in plan.config.get("cost", {}).items() if key in ("lora_rank", "lora_alpha")},
    }


def _validation(plan: Plan, choice: "SweepChoice", trainer: TrainerChoice | None) -> dict[str, Any]:
    """Return how trials are scored; InputError for a metric that nobody tells."""
    validation = plan.config["validation"]
    metric = validation.get("metric", "mean")
    if (choice.simulation is not None or trainer) and metric != "mean":
        teller = f"the trainer {trainer.name} tells" if trainer else "a simulated world knows"
        raise InputError(
            f"{plan.name} compares by the {metric} of the answers to a problem, and {teller} their mean alone: take "
            "[validation] metric = 'mean'"
        )
    names = ("problems", "samples", "every_steps", "every_rollouts")
    return {name: validation[name] for name in names} | {"metric": metric, "metric_k": validation.get("metric_k")}


def _folder_or_name(place: str | None) -> str | None:
    """Return the path of a model or of problems from the root; what is no path may be a name that others know."""
    return absolute(place) if place is None or Path(place).expanduser().exists() else place


def _scoring(plan: Plan, choice: "SweepChoice") -> dict[str, Any]:
    """Return the plan's [task], with the reward and the problems that are given now."""
    scoring: dict[str, Any] = dict(plan.config.get("task", {}))
    reward = choice.reward or scoring.get("reward")
    scoring |= {"reward": _absolute_reward(reward)} if reward else {}
    scoring |= {"chat_template": absolute(scoring["chat_template"])} if scoring.get("chat_template") else {}
    for key, instead in (("data", choice.problems), ("validation", choice.validation)):
        sources = [] if instead else scoring.get(key, [])
        scoring[key] = [{**source, "path": _folder_or_name(source["path"])} for source in sources]
    return scoring


def _absolute_reward(reward: str) -> str:
    return str(Path(reward).expanduser().absolute()) if ".py:" in reward else reward
