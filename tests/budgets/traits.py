"""What each shipped recipe costs."""

from planner.recipes import load_recipe, recipe_names

TRAITS = {name: load_recipe(name).traits() for name in recipe_names()}
