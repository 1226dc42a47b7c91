"""What `rlplan launch --print` says: an allocation of a plan or a sweep in the keys of a trainer."""

from dataclasses import dataclass

from budgets.errors import InputError, UnknownNameError
from planner.adopting.starting import Start, line_of, note_of, starters
from planner.axes import RECIPE, text_of
from planner.recipes import load_recipe, recipe_names
from planner.store.records import RankedRow
from rlplan.reading.rank_reading import ranking


@dataclass(frozen=True, slots=True)
class ByHand:
    """One ranked allocation, and how a trainer is given it."""

    of: str  # plan or sweep
    row: RankedRow
    trainer: str
    arguments: tuple[str, ...]
    note: str | None  # what to mind besides


def by_hand(database: str, name: str | None, trainer: str, row: int = 1) -> ByHand:
    """Return how the allocation in a row of the ranking is given to a trainer, by default that of the newest sweep."""
    if trainer not in starters():
        raise UnknownNameError("trainer", trainer, starters())
    found = ranking(database, name)
    of = found.sweep or found.plan
    taken = next((each for each in found.ranking if each.rank == row), None)
    if taken is None:
        raise InputError(f"--row {row}: {of} has rows 1 to {found.allocations}; `rlplan rank {of}` shows them")
    start = Start(
        taken.rollouts_per_prompt,
        taken.prompts_per_batch,
        taken.update_steps,
        taken.learning_rate,
        load_recipe(taken.recipe).schedule.updates_per_batch if taken.recipe in recipe_names() else 1,
        text_of(taken.axes, RECIPE),
    )
    return ByHand(of, taken, trainer, tuple(line_of(trainer, start)), note_of(trainer, start))
