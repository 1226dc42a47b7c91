"""Recipes as data: one TOML file each, every value with its source."""

from planner.recipes.library import explain, load_recipe, recipe_names
from planner.recipes.schema import Recipe

__all__ = ["Recipe", "explain", "load_recipe", "recipe_names"]
