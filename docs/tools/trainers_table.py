"""Writes the table recipe × trainer of docs/trainers.md, from what each driver says of each recipe."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from planner.config.trainer import BUILTIN, COMMAND, STANDIN, TRAINERS
from planner.recipes import load_recipe, recipe_names
from runner.trainers.capabilities import Difference, Judging, all_differences, degree
from runner.trainers.catalogue import named_driver

PAGE = Path(__file__).parents[1] / "trainers.md"
BEGIN, END = "<!-- recipes: begin, written by docs/tools/trainers_table.py -->\n", "<!-- recipes: end -->\n"
FEW = 3  # names that are given as those left out rather than all others


def judges() -> dict[str, Judging]:
    """Return the drivers that say what they do otherwise, by trainer."""
    found = {name: named_driver(name) for name in TRAINERS if name not in (BUILTIN, COMMAND, STANDIN)}
    return {name: driver for name, driver in found.items() if isinstance(driver, Judging)}


def table() -> str:
    """Return the table of degrees, and below it the changes that trainers make."""
    recipes = [load_recipe(name) for name in recipe_names()]
    judgements = {
        trainer: {recipe.name: all_differences(recipe, judge.differences) for recipe in recipes}
        for trainer, judge in judges().items()
    }
    trainers = list(judgements)
    lines = [f"| recipe | {' | '.join(f'`{trainer}`' for trainer in trainers)} |", f"|---|{'---|' * len(trainers)}"]
    for recipe in recipes:
        degrees = [degree(differences[recipe.name]) for differences in judgements.values()]
        lines.append(f"| `{recipe.name}` | {' | '.join(degrees)} |")
    return "\n".join([*lines, "", *_changes(judgements)]) + "\n"


def _changes(judgements: Mapping[str, Mapping[str, Sequence[Difference]]]) -> Iterator[str]:
    """Yield a line for each change of a key, with the trainers that make it and the recipes that have it."""
    trainers_of: dict[tuple[str, str, str], list[str]] = {}
    for trainer, differences in judgements.items():
        for (key, value), recipes in _recipes_of(differences).items():
            trainers_of.setdefault((key, value, _names(recipes, list(differences))), []).append(trainer)
    for (key, value, recipes), trainers in sorted(trainers_of.items()):
        yield f"- `{key}` → {value} ({_names(trainers, list(judgements))}): {recipes}"


def _recipes_of(differences: Mapping[str, Sequence[Difference]]) -> dict[tuple[str, str], list[str]]:
    """Return the recipes that have each changed key and value."""
    recipes: dict[tuple[str, str], list[str]] = {}
    for recipe, changes in differences.items():
        for change in changes:
            value = change.done.partition(" as ")[2] if change.near else "**refused**"
            recipes.setdefault((change.key, value), []).append(recipe)
    return recipes


def _names(names: Sequence[str], every: Sequence[str]) -> str:
    """Return the names in words, by those that are left out where these are few."""
    others = [name for name in every if name not in names]
    if not others:
        return "all"
    if len(others) <= FEW < len(names):
        return "all but " + ", ".join(f"`{name}`" for name in others)
    return ", ".join(f"`{name}`" for name in names)


def write(page: str) -> str:
    """Return the page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
