"""What a stored plan says: what its rows are compared as, what they cost to start, and what files they need."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgets import catalogue
from budgets.errors import InputError, UnknownNameError
from budgets.hardware import NODE_GPUS, fewest_nodes
from planner.axes import LEARNING_RATE, RECIPE, named_configuration, rate_factor, text_of, without
from planner.prior.laws import Run
from planner.prior.plan_prior import Priced, circumstances_of, prior_of_plan
from planner.store.schema import Candidate, Plan, Trial
from planner.view import Axes, Configuration, PlanPrior

if TYPE_CHECKING:
    from runner.sweep.spec import SweepSpec  # a plan is read without it, and it takes a while to build

CPU = "cpu"


def configuration_of(row: Candidate | Trial) -> Configuration:
    """Return what a candidate or trial is compared as."""
    return Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)


def row_of(plan: Plan, configuration: Configuration) -> Candidate:
    """Return a plan's row for a configuration, whose learning rate may be another."""
    sizes = configuration._replace(axes=without(configuration.axes, LEARNING_RATE))
    rows = {configuration_of(row): row for row in plan.candidates}
    alike = {
        configuration._replace(axes=without(configuration.axes, LEARNING_RATE)): row
        for configuration, row in reversed(rows.items())
    }
    row = rows.get(configuration) or alike.get(sizes)
    if row is None:
        raise InputError(f"{plan.name} has no row for its champion, {named_configuration(configuration)}")
    return row


def rate_of(candidate: Candidate, axes: Axes) -> float:
    """Return a candidate's learning rate with another factor on the rule's."""
    if axes == candidate.axes:
        return candidate.learning_rate
    return candidate.learning_rate * rate_factor(axes) / rate_factor(candidate.axes)


def start_ups(candidates: Iterable[Candidate], otherwise: float) -> dict[Axes, float]:
    """Return what the plan reckons for a start-up, by the axes that it depends on; the largest where no pilot says."""
    rows_by_axes: dict[Axes, list[Candidate]] = {}
    for row in candidates:
        rows_by_axes.setdefault(without(row.axes, LEARNING_RATE), []).append(row)
    return {
        axes: start_up_gpu_hours(rows) if any(row.pilot_steps for row in rows) else otherwise
        for axes, rows in rows_by_axes.items()
    }


def plan_forecast(plan: Plan, spec: "SweepSpec") -> PlanPrior | None:
    """Return what the plan expected along the sweep's final runs.

    None where it does not say on what workload, and of the best or the worst of k samples, which other cells favour.
    """
    runs = ((row, run_in_prior(plan, spec, row)) for row in plan.candidates)
    priced = [Priced(configuration_of(row), run, row.gpu_hours_per_step) for row, run in runs if run is not None]
    return prior_of_plan(priced, spec.target_gpu_hours)


def run_in_prior(plan: Plan, spec: "SweepSpec", row: Candidate) -> Run | None:
    """Return what the prior knows a row's run by; None as above."""
    here = circumstances_of(plan.workload)
    if here is None or spec.training.validation.metric != "mean":
        return None
    traits = spec.recipe(row.axes).traits(spec.training.task.name)
    return Run.of((row.rollouts_per_prompt, row.prompts_per_batch), row.signal_fraction, traits, here)


def start_up_gpu_hours(candidates: Iterable[Candidate]) -> float:
    """Return what the plan reckons for a start-up: the pilots' price less that of their steps."""
    return max(
        0.0,
        *(row.pilot_gpu_hours - row.pilot_steps * row.pilot_price for row in candidates if row.pilot_steps),
        0.0,
    )


def workload_name(config: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    """Name what is trained: the task where the sweep says one, else the plan's model."""
    task = config.get("training", {}).get("task", {}).get("name")
    return Path(task).stem if task else str(planned.get("model", ""))


def pilot_gpus(plan: Plan) -> int:
    """Return the GPUs of a pilot."""
    return int(plan.hardware["pilot_gpus"])


def nodes_of(plan: Plan, gpus: int) -> int:
    """Return the fewest nodes that have so many GPUs in equal parts; CPU workers know none."""
    if plan.hardware["gpu"] == CPU:
        return 1
    return fewest_nodes(gpus, int(plan.hardware.get("gpus_per_node") or NODE_GPUS))


def compared_recipes(plan: Plan) -> list[str]:
    """Return the names or paths of the plan's recipes: those of the axis, the one it was made with, or fell to."""
    return list(_axis(plan, "recipes") or [plan.config["recipe"]["name"] or plan.recipe])


def tried_recipes(plan: Plan) -> list[str]:
    """Return the recipes with which the plan has a pilot of its first row, beside those that it compares."""
    recipes = [text_of(row.axes, RECIPE) for row in plan.candidates if row.pilot_steps]
    return [] if _axis(plan, "recipes") else [name for name in dict.fromkeys(recipes) if name]


def compared_models(plan: Plan) -> dict[str, str]:
    """Return the plan's base models as it was given them, by their value on the axis; none where it has one."""
    own_models = plan.config.get("models", {})
    return {catalogue.model(model, own_models).name: model for model in _axis(plan, "models")}


def checkpoints(plan: Plan, text: str | None) -> dict[str, str]:
    """Return the local checkpoint of each base model that the plan compares, none where it compares none.

    A folder that the plan was given is one; others are given as folders with the model's name, or as NAME=FOLDER, with
    commas between them.
    """
    models = compared_models(plan)
    if not models:
        return {}
    folders = {name: folder for name, folder in models.items() if Path(folder).expanduser().is_dir()}
    for entry in filter(None, (part.strip() for part in (text or "").split(","))):
        name, folder = _entry(entry, models)
        folders[name] = folder
    if missing := [name for name in models if name not in folders]:
        raise InputError(
            f"{plan.name} compares the models {', '.join(models)}, and where the checkpoint of {' and '.join(missing)} "
            f"lies is not known: give --model {','.join(f'{name}=FOLDER' for name in missing)}"
        )
    return {name: str(absolute(folders[name])) for name in models}


def absolute(path: str | None) -> str | None:
    """Return a path from the root, as a worker elsewhere needs it."""
    return None if path is None else str(Path(path).expanduser().absolute())


def _entry(entry: str, models: dict[str, str]) -> tuple[str, str]:
    by_folded = {name.casefold(): name for name in models}
    before, equals, after = entry.partition("=")
    if equals and before.strip().casefold() in by_folded:
        return by_folded[before.strip().casefold()], after.strip()
    name = Path(entry).expanduser().absolute().name
    if name.casefold() not in by_folded:
        raise UnknownNameError("model of the plan", before if equals else name, list(models), "Give it as NAME=FOLDER")
    return by_folded[name.casefold()], entry


def _axis(plan: Plan, name: str) -> list[str]:
    return list((plan.config.get("axes") or {}).get(name) or ())
