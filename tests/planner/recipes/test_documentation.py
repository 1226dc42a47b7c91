"""docs/concepts/recipes.md says of the recipes what their files do."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from planner.recipes import Recipe, explain, load_recipe, recipe_names
from planner.recipes.library import SHIPPED

RECIPES = (Path(__file__).parents[3] / "docs" / "concepts" / "recipes.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```toml\n# my\.toml\n(.*?)```", re.DOTALL)


def cells(text: str, first: str) -> list[str]:
    """Return the cells of the table row whose first cell names this."""
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    found = [row for row in rows if first in row[0].replace("`", "").split(", ")]
    assert len(found) == 1, (first, found)
    return found[0]


def description_of(key: str) -> str | None:
    section, name = key.split(".")
    annotation: Any = Recipe.model_fields[section].annotation
    description: str | None = annotation.model_fields[name].description
    return description


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_is_described_with_what_it_builds_on_and_its_source(name: str) -> None:
    _, parent, _, source = cells(RECIPES, name)
    tables = tomllib.loads((SHIPPED / f"{name}.toml").read_text(encoding="utf-8"))
    assert parent.strip("`") == tables.get("inherits", "–")
    assert re.findall(r"\d{4}\.\d{5}", source) == re.findall(r"\d{4}\.\d{5}", tables["summary"])


@pytest.mark.parametrize("name", recipe_names())
def test_what_counts_for_the_price_is_what_the_recipe_does(name: str) -> None:
    traits, change = load_recipe(name).traits(), cells(RECIPES, name)[2]
    assert traits.reference_pass == ("KL and entropy terms" in change)
    assert re.findall(r"(\d+) updates per batch", change) == [str(traits.updates_per_batch)] * (
        traits.updates_per_batch > 1
    )
    assert re.findall(r"up to (\d+) updates behind", change) == [str(traits.staleness_bound)] * traits.asynchronous
    assert traits.refills_groups == ("sampled anew" in change)
    assert traits.drops_groups == ("dead groups dropped" in change)


def test_every_key_is_listed_with_its_default_and_meaning() -> None:
    defaults = {key: value for key, value, _ in explain(Recipe(name="defaults"))}
    for key, value in defaults.items():
        _, shown, meaning = cells(RECIPES, key)
        assert tomllib.loads(f"value = {shown.strip('`')}")["value"] == ("none" if value is None else value), key
        assert meaning == description_of(key)


def test_the_example_of_an_own_recipe_loads(tmp_path: Path) -> None:
    example = BLOCK.search(RECIPES)
    assert example is not None
    path = tmp_path / "my.toml"
    path.write_text(example[1], encoding="utf-8")
    recipe = load_recipe(str(path))
    assert recipe.objective.clip_high == 3.0
    assert recipe.sources["objective.clip_high"] == "our ablation of March"
    assert recipe.filters == load_recipe("scalerl").filters
