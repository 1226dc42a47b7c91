"""Pairs of tables: what is learnt from, and what is then played; groups of them stand beside those of single tables.

A pair of decisions.py is played by ours with one complete source and without, and by the others without.
"""

import functools
from dataclasses import dataclass
from typing import Final

from bench.deciding import tables
from planner.experience.experience import Experience
from planner.experience.extracting import experience_of_runs
from planner.experience.teaching import TransferPriors
from planner.replaying.recorded import Recorded

OTHER_DRAW: Final = 1000  # added to the seed of a drawn source
RECORDED_PAIRS: Final = (
    ("sum-easy", "sum-hard"),
    ("sum-hard", "sum-easy"),
    ("sum-easy", "recipes-sum-hard"),
    ("sum-hard", "recipes-sum-hard"),
    ("recipes-sum-hard", "sum-hard"),
)
NEW_PAIRS: Final = (  # onto tasks that no constant was chosen on
    ("sum-easy", "sum-steps"),
    ("sum-hard", "sum-steps"),
    ("sum-hard", "sort"),
    ("sum-easy", "rewrite"),
    ("sum-hard", "rewrite"),
)
SCALES: Final = (
    ("long-target", "short-target"),
    ("short-target", "long-target"),
    ("unequal-costs", "long-target"),
    ("long-target", "easy"),
)
HALF: Final = ("1", "0.5")  # the targets of recorded tables, in lengths of their runs


@dataclass(frozen=True)
class Pair:
    """A table that is learnt from, and one that is played."""

    group: str
    source: str
    target: str

    @property
    def name(self) -> str:
        """What stands in the place of a table's name."""
        return f"{self.group}/{self.source.partition('/')[2]}>{self.target.partition('/')[2]}"


def _pairs() -> dict[str, tuple[Pair, ...]]:
    old, new = tables.ALLOCBENCH, tables.names(tables.NEW_TASKS)
    found = {
        "recorded": [(f"{old}/{a}@1", f"{old}/{b}@{share}") for a, b in RECORDED_PAIRS for share in HALF],
        "new": [
            (f"{old}/{a}@1", target)
            for a, b in NEW_PAIRS
            for target in new
            if target.startswith(f"{tables.NEW_TASKS}/{b}@")
        ],
        "drawn": [(name, name) for name in tables.names(tables.SIMULATED)],
        "unseen": [(name, name) for name in tables.names(tables.HELD_OUT)],
        "scales": [(f"{tables.SIMULATED}/{a}", f"{tables.SIMULATED}/{b}") for a, b in SCALES],
    }
    return {group: tuple(Pair(group, a, b) for a, b in those) for group, those in found.items()}


PAIRS: Final = _pairs()
AS_TABLES: Final = {"pairs": "recorded", **{f"pairs-{group}": group for group in PAIRS}}  # as decisions.py names them
BY_NAME: Final = {pair.name: pair for those in PAIRS.values() for pair in those}


def table_of(name: str, seed: int) -> tuple[Recorded, float]:
    """Return the table that is played under a name, with its target: of a pair, the second."""
    return tables.table(BY_NAME[name].target if name in BY_NAME else name, seed)


def names(wanted: list[str]) -> list[str]:
    """Return the names of tables and pairs, a group's name standing for all of its own."""
    found = []
    for one in wanted:
        if one in AS_TABLES:
            found += [pair.name for pair in PAIRS[AS_TABLES[one]]]
        else:
            found += [one] if one in BY_NAME else tables.suite_names([one])
    return found


@functools.lru_cache(maxsize=4)
def learnt(source: str, seed: int) -> Experience:
    """Return what a complete table says; a drawn one is another draw than the one of that seed that is played."""
    return experience_of_runs(source, tables.table(source, seed + OTHER_DRAW)[0], about(source))


def about(table: str) -> dict[str, str]:
    """Return what is known of a table by its name."""
    return {"task": table.partition("@")[0]}


def teacher_of(pair: Pair, seed: int) -> TransferPriors:
    """Return what the source of a pair teaches whoever plays its target."""
    return TransferPriors((learnt(pair.source, seed),), about(pair.target))
