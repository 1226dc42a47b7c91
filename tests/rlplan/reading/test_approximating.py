from typing import Any

import pytest

from planner.recipes import load_recipe
from rlplan.reading.sweep_data import approximated


def config(trainer: str, *recipes: str, approximate: bool = True, weights: str = "bfloat16") -> dict[str, Any]:
    given = {name: load_recipe(name).model_dump(mode="json") for name in recipes}
    chosen = {"name": trainer, "approximate": approximate}
    machine = {"device": "cuda", "weights": weights}
    several = {"recipes": given} if len(given) > 1 else {}
    return {"training": {"recipe": given[recipes[0]], "trainer": chosen, "machine": machine, **several}}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (config("verl", "cispo"), ["cispo"]),
        (config("trl", "grpo", "minimax", "magistral"), ["minimax", "magistral"]),
        ({}, []),
        (config("verl", "cispo", weights="float32"), []),
        (config("trl", "minimax", approximate=False), []),  # which is refused before it starts
        (config("standin", "minimax"), []),
    ],
    ids=["verl", "each of several", "builtin", "float32", "refused", "stand-in"],
)
def test_each_recipe_that_a_trainer_does_otherwise_has_a_line(given: dict[str, Any], named: list[str]) -> None:
    said = approximated(given)
    assert [line.split("'")[1] for line in said] == named
    assert all(" approximately: " in line for line in said)
