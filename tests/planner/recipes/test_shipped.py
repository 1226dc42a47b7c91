import tomllib

import pytest

from planner.layering import flattened
from planner.recipes import load_recipe, recipe_names
from planner.recipes.loading import SHIPPED

ABOUT_ITSELF = {"name", "summary", "inherits", "sources"}


@pytest.mark.parametrize("name", recipe_names())
def test_every_value_that_is_written_has_a_source_that_is_a_paper_or_owns_up(name: str) -> None:
    tables = tomllib.loads((SHIPPED / f"{name}.toml").read_text(encoding="utf-8"))
    settings = {key for key, _ in flattened({k: v for k, v in tables.items() if k not in ABOUT_ITSELF})}
    assert set(tables["sources"]) == settings
    for key, text in tables["sources"].items():
        assert "arXiv 2" in text or "not published" in text, key
        assert ("not published" in text) == ("rlplan's choice, because" in text), key
    assert "arXiv" in load_recipe(name).summary


def test_scalerl_alone_ends_thinking_and_not_where_an_answer_is_a_sum_alone() -> None:
    recipe = load_recipe("scalerl")
    assert recipe.closing() == (recipe.interruptions.phrase, "</think>")
    assert recipe.interruptions.phrase.strip().endswith("</think>")
    assert recipe.closing("sum-steps") == (";=", ";=")
    assert recipe.closing("sum-easy") == ("", "")
    assert recipe.traits("sum-easy") == recipe.traits().uninterrupted
    assert all(load_recipe(name).closing() == ("", "") for name in recipe_names() if name != "scalerl")
