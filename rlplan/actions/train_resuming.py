"""A run that goes on: what its folder says counts, and flags that say otherwise are refused."""

from collections.abc import Iterator

from pydantic import ValidationError

from budgets.errors import InputError, RlplanError
from planner.checking import explained
from planner.layering import Layer, flattened, merged
from planner.recipes import load_recipe
from rlplan.actions.train_request import TrainingRun, TrainRequest
from runner.ports.trial import TrialConfig

MACHINE = "machine."  # another machine may finish a run; the backend notes that the last bits may differ


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
