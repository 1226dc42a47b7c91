"""Writes the table recipe × trainer of docs/trainers.md, from what each driver says of each recipe."""

from importlib import import_module
from pathlib import Path

from planner.config.trainer import TRAINERS
from planner.recipes import load_recipe, recipe_names
from runner.trainers.ability import Difference, Judging, degree, judged

PAGE = Path(__file__).parents[1] / "trainers.md"
BEGIN, END = "<!-- recipes: begin, written by docs/tools/trainers_table.py -->\n", "<!-- recipes: end -->\n"


def judges() -> dict[str, Judging]:
    """Return the drivers that say what they do otherwise, by trainer."""
    found = {}
    for name in TRAINERS:
        try:
            module = import_module(f"runner.trainers.{name.replace('-', '_')}.driver")
        except ModuleNotFoundError:  # the trainer of rlplan itself has no driver
            continue
        if isinstance(judge := getattr(module, "JUDGE", None), Judging):
            found[name] = judge
    return found


def table() -> str:
    """Return the table, and below it what is done otherwise."""
    known = judges()
    lines = [f"| recipe | {' | '.join(f'`{name}`' for name in known)} |", f"|---|{'---|' * len(known)}"]
    notes: list[str] = []
    for recipe in map(load_recipe, recipe_names()):
        found = {name: judged(recipe, judge.differences) for name, judge in known.items()}
        lines.append(f"| `{recipe.name}` | {' | '.join(degree(each) for each in found.values())} |")
        for name, differences in found.items():
            if differences:
                notes.append(f"- `{recipe.name}` with `{name}`: {'; '.join(map(_told, differences))}")
    return "\n".join([*lines, "", *notes]) + "\n"


def _told(difference: Difference) -> str:
    return f"{difference.done} ({difference.why})" if difference.near else f"{difference.key}: {difference.why}"


def write(page: str) -> str:
    """Return the page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
