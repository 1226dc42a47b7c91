"""Writes the table recipe × trainer of docs/trainers.md, from what each driver says of each recipe."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from planner.config.trainer import BUILTIN, COMMAND, STANDIN, TRAINERS
from planner.recipes import load_recipe, recipe_names
from runner.trainers.ability import Difference, Judging, degree, judged
from runner.trainers.catalogue import named_driver

PAGE = Path(__file__).parents[1] / "trainers.md"
BEGIN, END = "<!-- recipes: begin, written by docs/tools/trainers_table.py -->\n", "<!-- recipes: end -->\n"
FEW = 3  # recipes that are named as those left out rather than all others


def judges() -> dict[str, Judging]:
    """Return the drivers that say what they do otherwise, by trainer."""
    found = {name: named_driver(name) for name in TRAINERS if name not in (BUILTIN, COMMAND, STANDIN)}
    return {name: driver for name, driver in found.items() if isinstance(driver, Judging)}


def table() -> str:
    """Return the table, and below it what each trainer does otherwise."""
    recipes = [load_recipe(name) for name in recipe_names()]
    found = {
        trainer: {recipe.name: judged(recipe, judge.differences) for recipe in recipes}
        for trainer, judge in judges().items()
    }
    lines = [f"| recipe | {' | '.join(f'`{trainer}`' for trainer in found)} |", f"|---|{'---|' * len(found)}"]
    for recipe in recipes:
        lines.append(f"| `{recipe.name}` | {' | '.join(degree(of[recipe.name]) for of in found.values())} |")
    shared = set.intersection(*(set(_clauses(of)) for of in found.values()))
    lines += ["", "**Every one**:", "", *_otherwise(next(iter(found.values())), shared)]
    for trainer, of in found.items():
        lines += ["", f"**`{trainer}`**:", "", *_otherwise(of, _clauses(of).keys() - shared)]
    return "\n".join(lines) + "\n"


def _otherwise(found: Mapping[str, Sequence[Difference]], shown: Collection[str]) -> Iterator[str]:
    """Yield a line for each difference that is shown with the recipes that have it, the most common first."""
    recipes = _clauses(found)
    for clause in sorted(shown, key=lambda clause: (-len(recipes[clause]), clause)):
        yield f"- {clause}: {_named(recipes[clause], list(found))}"


def _clauses(found: Mapping[str, Sequence[Difference]]) -> dict[str, list[str]]:
    """Return the recipes that have each difference, which recipe's values it is of left aside."""
    recipes: dict[str, list[str]] = {}
    for recipe, differences in found.items():
        for each in differences:
            recipes.setdefault(_clause(each), []).append(recipe)
    return recipes


def _clause(difference: Difference) -> str:
    """Return what becomes of a key; why is left to the refusal."""
    instead = difference.done.partition(" as ")[2] if difference.near else "**refused**"
    return f"`{difference.key}` → {instead}"


def _named(having: Sequence[str], every: Sequence[str]) -> str:
    """Return the recipes in words, by those that are left out where these are few."""
    others = [name for name in every if name not in having]
    if not others:
        return "every recipe"
    if len(others) <= FEW:
        return "all but " + ", ".join(f"`{name}`" for name in others)
    return ", ".join(f"`{name}`" for name in having)


def write(page: str) -> str:
    """Return the page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
