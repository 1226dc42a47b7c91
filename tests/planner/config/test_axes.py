"""Axes beside n and B in the configuration: what one value means, and what is refused."""

from typing import Any

import pytest

from budgets.errors import ConfigError, InputError
from planner.config import Layer, build_request, flag_layer, resolve, resolved_values
from planner.config.layers import Resolved, collapse_single_values

BUDGET = {"budget": {"gpu_hours": 5000.0}}


def configured(*layers: Layer) -> Resolved:
    return resolve([Layer("rlplan.toml", BUDGET), *layers])


def in_file(**axes: Any) -> Resolved:
    return configured(Layer("rlplan.toml", {"axes": axes}))


def flags(**given: Any) -> list[Layer]:
    keys = {"recipe": "recipe.name", "recipes": "axes.recipes", "model": "workload.model", "models": "axes.models"}
    return flag_layer({keys[name]: (f"--{name}", value) for name, value in given.items()})


def test_several_values_are_an_axis_and_one_is_none() -> None:
    both = build_request(
        in_file(recipes=["easy", "scalerl"], models=["qwen3-4b", "qwen3-8b"], learning_rates=[3.0, 1.0])
    )
    assert len(both.all_variants) == 8
    assert both.all_variants[0].axes == (("recipe", "easy"), ("model", "qwen3-4b"), ("learning_rate", 1.0))
    assert {variant.workload.model.name for variant in both.all_variants} == {"qwen3-4b", "qwen3-8b"}
    one = build_request(in_file(recipes=["scalerl"], models=["qwen3-4b"], learning_rates=[3.0]))
    same = build_request(
        configured(
            Layer("rlplan.toml", {"recipe": {"name": "scalerl", "learning_rate": 3e-6}}),
            *flags(model="qwen3-4b"),
        )
    )
    assert one == same
    assert one.variants == ()
    searched = build_request(in_file(learning_rate_range=[0.3, 3.0]))
    assert (searched.learning_rate_range, searched.variants) == ((0.3, 3.0), ())


def test_one_value_is_stored_where_it_otherwise_stands() -> None:
    resolved = in_file(recipes=["scalerl"], learning_rate_range=[2.0, 2.0])
    values = resolved_values(build_request(resolved), resolved)
    assert "axes" not in values
    assert (values["recipe"]["name"], values["recipe"]["learning_rate"]) == ("scalerl", 2e-6)
    assert values["sources"]["recipe.name"] == "rlplan.toml"
    resolved = in_file(recipes=["easy", "scalerl"])
    assert resolved_values(build_request(resolved), resolved)["axes"]["recipes"] == ["easy", "scalerl"]


@pytest.mark.parametrize(
    ("layers", "recipe", "recipes"),
    [
        ([Layer("rlplan.toml", {"recipe": {"name": "grpo"}}), *flags(recipes=["easy", "scalerl"])], "grpo", 2),
        ([Layer("rlplan.toml", {"axes": {"recipes": ["easy", "scalerl"]}}), *flags(recipe="grpo")], "grpo", 0),
    ],
)
def test_a_flag_wins_over_the_file_in_either_form(layers: list[Layer], recipe: str, recipes: int) -> None:
    config = collapse_single_values(configured(*layers)).config
    assert config.recipe.name == recipe
    assert len(config.axes.recipes or ()) == recipes


@pytest.mark.parametrize(
    ("resolved", "message"),
    [
        (lambda: configured(*flags(recipe="grpo", recipes=["easy", "hard"])), "they say the same thing twice"),
        (lambda: in_file(recipes=[]), "axes.recipes is empty"),
        (lambda: in_file(recipes=["easy", "easy"]), "'easy' and 'easy' are both called 'easy'"),
        (lambda: in_file(learning_rates=[1.0], learning_rate_range=[0.3, 3.0]), "keep one"),
        (lambda: in_file(learning_rate_range=[3.0, 0.3]), "the least and the largest factor"),
        (lambda: in_file(learning_rates=[1.0, 1.0]), "give each factor of the learning rate once"),
        (lambda: in_file(learning_rates=[0.0]), "axes.learning_rates.0 = 0.0 should be greater than 0"),
        (lambda: in_file(recipes="easy"), "axes.recipes = 'easy' should be a valid list"),
        (lambda: in_file(recipes=["easy", "scalrl"]), "unknown recipe 'scalrl': did you mean 'scalerl'"),
    ],
)
def test_what_cannot_be_meant_is_refused(resolved: Any, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        build_request(resolved())
    assert message in str(refusal.value)


def test_growths_are_an_axis_by_the_name_they_are_stored_by() -> None:
    request = build_request(in_file(growths=["none", "4x@32"]))
    assert [variant.axes for variant in request.variants] == [(("growth", "none"),), (("growth", "4x"),)]
    assert [variant.axes for variant in build_request(in_file(growths=["8x"])).variants] == [(("growth", "8x"),)]
    assert build_request(in_file(growths=["none"])).variants == ()
    with pytest.raises(InputError, match="growth 'double' cannot be read"):
        build_request(in_file(growths=["double"]))
    with pytest.raises(ConfigError, match="are both called '4x'"):
        build_request(in_file(growths=["4x", "4x@32"]))
