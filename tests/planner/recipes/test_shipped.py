import tomllib
from typing import Any

import pytest

from planner.checking import dotted_keys
from planner.layering import flattened
from planner.recipes import Recipe, explain, load_recipe, recipe_names
from planner.recipes.loading import SHIPPED
from tests.budgets.traits import TRAITS

ABOUT_ITSELF = {"name", "summary", "inherits", "sources"}


def written(name: str) -> dict[str, Any]:
    return tomllib.loads((SHIPPED / f"{name}.toml").read_text(encoding="utf-8"))


def values(name: str) -> dict[str, Any]:
    return {key: value for key, value, _ in explain(load_recipe(name))}


def test_the_ten_are_there() -> None:
    assert recipe_names() == sorted(TRAITS)
    assert len(recipe_names()) == 10


@pytest.mark.parametrize("name", sorted(TRAITS))
def test_a_step_costs_what_it_always_did(name: str) -> None:
    assert load_recipe(name).traits() == TRAITS[name]


@pytest.mark.parametrize("name", recipe_names())
def test_every_value_that_is_written_has_a_source_and_every_source_a_value(name: str) -> None:
    tables = written(name)
    settings = {key for key, _ in flattened({k: v for k, v in tables.items() if k not in ABOUT_ITSELF})}
    assert set(tables["sources"]) == settings
    assert settings < set(dotted_keys(Recipe))


@pytest.mark.parametrize("name", recipe_names())
def test_every_source_is_a_paper_or_owns_up(name: str) -> None:
    for key, text in written(name)["sources"].items():
        assert "arXiv 2" in text or "not published" in text, key
        assert ("not published" in text) == ("rlplan's choice, because" in text), key


@pytest.mark.parametrize("name", recipe_names())
def test_each_says_in_a_sentence_what_it_is(name: str) -> None:
    assert "arXiv" in load_recipe(name).summary


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grpo", {"objective.kl": 0.04, "objective.aggregation": "sample", "advantage.scale": "group"}),
        ("dr-grpo", {"objective.kl": 0.0, "objective.aggregation": "constant", "advantage.scale": "none"}),
        ("dapo", {"objective.clip_low": 0.2, "objective.clip_high": 0.28, "objective.aggregation": "token"}),
        ("dapo", {"rewards.overlong_share": 4096 / 20480, "rewards.mask_truncated": True, "objective.kl": 0.0}),
        ("dapo", {"schedule.updates_per_batch": 16, "optimizer.warmup_steps": 20 * 16, "rewards.wrong": -1.0}),
        ("gspo", {"objective.ratio": "sequence", "objective.clip_low": 3e-4, "objective.clip_high": 4e-4}),
        ("cispo", {"objective.clip": "cispo", "objective.clip_low": None, "objective.aggregation": "token"}),
        ("minimax", {"objective.aggregation": "prompt", "precision.fp32_head": True, "advantage.scale": "group"}),
        ("magistral", {"objective.clip_high": 0.26, "objective.clip": "ppo", "schedule.staleness_bound": 8}),
        ("easy", {"objective.truncated_importance": 2.0, "filters.zero_variance": "keep"}),
        ("hard", {"objective.kl": 0.0, "objective.entropy": 0.0, "filters.zero_variance": "keep"}),
        ("hard", {"objective.truncated_importance": 2.0, "objective.against": "trainer", "optimizer.warmup_steps": 10}),
    ],
)
def test_the_methods_are_as_their_papers_have_them(name: str, expected: dict[str, Any]) -> None:
    assert {key: values(name)[key] for key in expected} == expected


def test_scalerl_caps_the_ratio_itself_at_five_and_at_nothing_below() -> None:
    recipe = load_recipe("scalerl")
    assert recipe.objective.clip == "cispo"
    assert recipe.objective.clip_low is None
    assert recipe.objective.clip_high is not None
    assert 1 + recipe.objective.clip_high == 5
    assert recipe.objective.against == "sampler"


def test_scalerl_is_complete() -> None:
    scalerl = values("scalerl")
    expected = {
        "advantage.scale": "batch",
        "objective.aggregation": "prompt",
        "objective.kl": 0.0,
        "rewards.correct": 1.0,
        "rewards.wrong": -1.0,
        "filters.zero_variance": "drop",
        "filters.retire_at": 0.9,
        "optimizer.warmup_steps": 100,
        "optimizer.epsilon": 1e-15,
        "optimizer.weight_decay": 0.01,
        "precision.fp32_head": True,
        "interruptions.closed_by": "</think>",
    }
    assert {key: scalerl[key] for key in expected} == expected


def test_scalerl_ends_thinking_after_10_000_to_12_000_of_14_336_tokens() -> None:
    recipe = load_recipe("scalerl")
    shares = recipe.interruptions.earliest, recipe.interruptions.latest
    assert shares == (pytest.approx(10_000 / 14_336, abs=1e-4), pytest.approx(12_000 / 14_336, abs=1e-4))
    assert recipe.closing() == (recipe.interruptions.phrase, "</think>")
    assert recipe.interruptions.phrase.strip().endswith("</think>")
    assert recipe.closing("sum-steps") == (";=", ";=")
    assert recipe.closing("sum-easy") == ("", "")
    assert recipe.traits("sum-easy") == recipe.traits().uninterrupted
    assert all(load_recipe(name).closing() == ("", "") for name in recipe_names() if name != "scalerl")


def test_easy_is_hard_with_kl_and_entropy() -> None:
    easy, hard = values("easy"), values("hard")
    differing = {key for key in easy if easy[key] != hard[key]}
    assert differing == {"objective.kl", "objective.entropy"}
    assert 0 < easy["objective.kl"] <= 0.01
    assert 0 < easy["objective.entropy"] <= 0.01
