"""What of a sweep's recipes its trainer does otherwise than they say, in words for whoever reads of the sweep."""

from collections.abc import Mapping
from typing import Any

from planner.config.trainer import STANDIN, TrainerChoice
from planner.recipes import Recipe
from runner.ports.trial import Machine
from runner.trainers.ability import Judging
from runner.trainers.catalogue import named_driver


def approximated(config: Mapping[str, Any]) -> list[str]:
    """Return a line for each recipe of a sweep's configuration that is done nearly; nothing where all are exact."""
    training = config.get("training", {})
    given = training.get("trainer")
    trainer = TrainerChoice.model_validate(given) if given else None
    if trainer is None or not trainer.approximate or trainer.name == STANDIN:
        return []
    judge = named_driver(trainer.name)
    machine = Machine.model_validate(training.get("machine", {}))
    found = []
    for tables in training.get("recipes", {}).values() or (training["recipe"],):
        recipe = Recipe.model_validate(tables)
        differences = judge.differences(recipe, machine) if isinstance(judge, Judging) else []
        if differences:
            done = "; ".join(each.done for each in differences)
            found.append(f"{trainer.name} does recipe '{recipe.name}' approximately: {done}")
    return found
