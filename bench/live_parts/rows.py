"""The table that the loops end in: what was promised, what came, and what the full grid has."""

import math
from dataclasses import dataclass
from typing import Any

from .grid import Cell
from .loop import Loops, Observed

NEAR = 0.02
ENOUGH = 0.8  # of the observed scores within the promised 90 % interval
COLUMNS = (
    "| seed | task | recommended | P(best) | promised, 90 % | observed | grid's best | regret | its mean in the grid "
    "| inside | pilots spent | trained | length |"
)


@dataclass(frozen=True)
class Row:
    """One loop."""

    seed: int
    task: str
    cell: Cell
    probability_best: float
    promised: tuple[float, float, float]
    observed: float
    best: tuple[Cell, float]
    of_cell: float | None  # the recommended cell's truth in the grid
    spent: float  # by the pilots, start-ups and all, in costs of the grid by the plan's speed
    trained: float  # of that, the training alone, in costs of the grid by a quiet machine
    length: float  # of the final run, in targets of the table

    @property
    def regret(self) -> float:
        """How far what was observed falls short of the best of the grid."""
        return self.best[1] - self.observed

    @property
    def inside(self) -> bool:
        """Whether what was observed lies within what was promised."""
        return self.promised[1] <= self.observed <= self.promised[2]

    def line(self) -> str:
        """Return the row of the table."""
        expected, low, high = self.promised
        own = "–" if self.of_cell is None else f"{self.of_cell:.3f}"
        return (
            f"| {self.seed} | {self.task} | {_named(self.cell)} | {self.probability_best:.2f} "
            f"| {expected:.3f} ({low:.3f} to {high:.3f}) | {self.observed:.3f} | {self.best[1]:.3f} "
            f"({_named(self.best[0])}) | {self.regret:+.3f} | {own} | {'yes' if self.inside else 'NO'} "
            f"| {self.spent:.1%} | {self.trained:.1%} | {self.length:.2f} |"
        )


def row(loops: Loops, seed: int, said: dict[str, Any], observed: Observed) -> Row:
    """Compare what was said with what came and with the grid."""
    grid, chosen = loops.grid, said["recommendation"]
    cell = int(chosen["rollouts_per_prompt"]), int(chosen["prompts_per_batch"])
    return Row(
        seed=seed,
        task=loops.task,
        cell=cell,
        probability_best=chosen["probability_best"],
        promised=(chosen["expected_score"], chosen["score_low"], chosen["score_high"]),
        observed=observed.score,
        best=max(grid.truth.items(), key=lambda item: item[1]),
        of_cell=grid.truth.get(cell),
        spent=loops.share * said["spent_gpu_hours"] / said["pilot_gpu_hours"],
        trained=said["trained_share"],
        length=grid.hours_at(cell, observed.steps) / grid.target if cell in grid else math.nan,
    )


def report(rows: list[Row], enough_near: float = 1.0) -> int:
    """Print the totals and the bars; so much of the final runs must come near the best of the grid."""
    inside, near = sum(each.inside for each in rows), sum(each.regret <= NEAR for each in rows)
    print(f"\n{inside} of {len(rows)} inside the promised 90 % interval; bar: at least {ENOUGH:.0%}")
    print(f"{near} of {len(rows)} within {NEAR:g} of the best of the full grid; bar: {enough_near:.0%}")
    own = sum(each.of_cell is not None and each.best[1] - each.of_cell <= NEAR for each in rows)
    print(f"{own} of {len(rows)} recommend a configuration whose mean in the grid is within {NEAR:g} of that best")
    print(f"pilots trained for at most {max(each.trained for each in rows):.1%} of the grid's cost")
    return int(inside < ENOUGH * len(rows)) + int(near < enough_near * len(rows))


def _named(cell: Cell) -> str:
    return f"n={cell[0]}, B={cell[1]}"
