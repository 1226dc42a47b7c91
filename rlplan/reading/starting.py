"""What `rlplan launch --print` says: an allocation in the keys of a trainer, or a file that asks for its machines."""

from dataclasses import dataclass, field
from pathlib import Path

from budgets.errors import InputError, UnknownNameError
from planner.adopting.starting import Start, line_of, note_of, starters
from planner.axes import RECIPE, text_of
from planner.recipes import load_recipe, recipe_names
from planner.store import open_store
from planner.store.engine import locate
from planner.store.records import RankedRow
from rlplan.reading.rank_reading import Ranking, ranking
from rlplan.reading.sweep_picture import Source
from rlplan.wording.documents import AxisValues, Key, View
from runner.clusters import manifest
from runner.sweep.planned import CPU, nodes_of


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


def by_hand(database: str, name: str | None, trainer: str, row: int = 1) -> ByHand:
    """Return how the allocation in a row of the ranking is given to a trainer, by default that of the newest sweep."""
    if trainer not in starters():
        raise UnknownNameError("trainer", trainer, starters())
    found = ranking(database, name)
    taken = _row(found, row)
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


def cluster_file(database: str, name: str | None, cluster: str, row: int | None) -> str:
    """Return the file for a row of a plan, or for what a sweep recommends; another row of a sweep is named by sizes."""
    found = ranking(database, name)
    chosen, of = _row(found, row or 1), found.sweep or found.plan
    with open_store(database, read_only=True) as store:
        plan = store.plan(found.plan)
    gpu, gpus = str(plan.hardware["gpu"]), int(plan.hardware["gpus_per_trial"])
    nodes = nodes_of(plan, gpus)
    sizes = f"n={chosen.rollouts_per_prompt},B={chosen.prompts_per_batch}"
    flags = ("--row", str(chosen.rank)) if found.sweep is None else ("--allocation", sizes) if row else ()
    return manifest.text_of(
        manifest.Manifest(
            what=f"{of}, row {chosen.rank}: {sizes}, {chosen.update_steps:,} steps on {gpus} {gpu}",
            name=of,
            command=("rlplan", "launch", of, *flags),
            nodes=nodes,
            gpu=None if gpu == CPU else gpu,
            gpus_per_node=gpus // nodes,
            cpus_per_node=gpus // nodes * (1 if gpu == CPU else manifest.CPUS_PER_GPU),
            server=not isinstance(locate(database), Path),
        ),
        cluster,
    )


def _row(found: Ranking, rank: int) -> RankedRow:
    """Return the row of this rank; InputError where there is none."""
    taken = next((each for each in found.ranking if each.rank == rank), None)
    if taken is None:
        of = found.sweep or found.plan
        raise InputError(f"{{row}}: {of} has rows 1 to {found.allocations}; `rlplan rank {of}` shows them", row=rank)
    return taken
