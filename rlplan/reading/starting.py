"""What `rlplan launch --print` says: an allocation in the keys of a trainer."""

from dataclasses import dataclass, field

from budgets.errors import UnknownNameError
from planner.adopting.starting import Start, line_of, note_of, starters
from planner.axes import RECIPE, text_of
from planner.recipes import load_recipe, recipe_names
from planner.store.records import RankedRow
from rlplan.reading.rank_reading import ranking
from rlplan.reading.row_choice import row_with, sizes_in
from rlplan.reading.sweep_picture import Source
from rlplan.wording.documents import AxisValues, Key, View


class RowData(View[RankedRow]):
    """A row, with its axes also where there are none."""

    WHOLE = RankedRow
    axes = Key[AxisValues](lambda each: dict(each.of.axes))


@dataclass(frozen=True, slots=True)
class ByHand:
    """One ranked allocation, and how a trainer is given it."""

    of: str  # plan or sweep
    row: RankedRow = field(repr=False)
    trainer: str
    arguments: tuple[str, ...]
    note: str | None  # what to mind besides

    taken = Key[RowData](lambda each: RowData(each.row), name="row")


def by_hand(
    database: str, name: str | None, trainer: str, row: int | None = None, allocation: str | None = None
) -> ByHand:
    """Return how an allocation of the ranking is given to a trainer, by default the first of the newest sweep."""
    if trainer not in starters():
        raise UnknownNameError("trainer", trainer, starters())
    found = ranking(database, name)
    taken = row_with(found.every, row, sizes_in(allocation), found.sweep or found.plan)
    start = Start(
        taken.rollouts_per_prompt,
        taken.prompts_per_batch,
        taken.update_steps,
        taken.learning_rate,
        load_recipe(taken.recipe).schedule.updates_per_batch if taken.recipe in recipe_names() else 1,
        text_of(taken.axes, RECIPE),
    )
    unmeasured = found.sweep is not None and found.source is Source.PROPOSED
    notes = ["as proposed: the sweep recommends nothing yet"] if unmeasured else []
    notes += [note] if (note := note_of(trainer, start)) else []
    return ByHand(found.sweep or found.plan, taken, trainer, tuple(line_of(trainer, start)), "; ".join(notes) or None)
