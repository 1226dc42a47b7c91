from typing import Any

import pytest

from planner.recipes import load_recipe
from rlplan.reading.approximating import approximated


def config(trainer: str, recipe: str, *, approximate: bool = True, weights: str = "bfloat16") -> dict[str, Any]:
    chosen = {"name": trainer, "approximate": approximate}
    machine = {"device": "cuda", "weights": weights}
    return {"training": {"recipe": load_recipe(recipe).model_dump(mode="json"), "trainer": chosen, "machine": machine}}


def test_what_a_trainer_does_otherwise_is_named() -> None:
    (said,) = approximated(config("verl", "grpo"))
    assert said == "verl does recipe 'grpo' approximately: precision.fp32_head = true as false"


@pytest.mark.parametrize(
    "given",
    [
        {},
        config("verl", "grpo", weights="float32"),
        config("trl", "grpo"),
        config("trl", "minimax", approximate=False),  # which is refused before it starts
        config("standin", "minimax"),
    ],
    ids=["builtin", "float32", "exact", "refused", "stand-in"],
)
def test_nothing_is_said_where_all_is_exact(given: dict[str, Any]) -> None:
    assert approximated(given) == []


def test_each_recipe_that_is_compared_has_its_own_line() -> None:
    given = config("trl", "grpo")["training"]
    recipes = {name: load_recipe(name).model_dump(mode="json") for name in ("grpo", "minimax", "magistral")}

    assert [line.split("'")[1] for line in approximated({"training": {**given, "recipes": recipes}})] == [
        "minimax",
        "magistral",
    ]
