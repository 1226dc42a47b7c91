"""The answer of a sweep: cells ranked by what a final run of each is predicted to score, and what the choice may cost.

It rests on the committed scores alone, whatever policy has bought them.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from budgets.errors import InputError
from planner.sweeping.advancing import hours
from planner.sweeping.beliefs import LEVEL, Beliefs, Standing
from planner.sweeping.grid import MIDDLES, masses, quantile
from planner.sweeping.view import Cell, TrialView, View
from planner.trials import TrialState

EQUIVALENT = 0.02  # differences within it are seed noise in the best study there is
PROPOSED = "proposed"  # the status of a cell that has no trial

# The order in which the states of several seeds speak for their cell.
STATUS = (
    TrialState.RUNNING,
    TrialState.PAUSED,
    TrialState.FINISHED,
    TrialState.PLANNED,
    TrialState.FAILED,
    TrialState.LOST,
    TrialState.PRUNED,
)


@dataclass(frozen=True, slots=True)
class CellFacts:
    """What a final run of a cell would be, the price of a step measured or as planned."""

    learning_rate: float
    recipe: str
    gpu_hours_per_step: float


@dataclass(frozen=True, slots=True)
class RankedCell:
    """One cell of the ranked list; without a curve it has no score. The interval is of 90 %."""

    rank: int
    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int
    learning_rate: float
    recipe: str
    status: str
    gpu_hours_spent: float
    gpu_hours_to_target: float
    expected_score: float | None
    score_low: float | None
    score_high: float | None
    probability_best: float | None

    @property
    def name(self) -> str:
        """How a sentence calls it."""
        return f"n={self.rollouts_per_prompt}, B={self.prompts_per_batch}"


@dataclass(frozen=True, slots=True)
class Ranked:
    """All cells in order, the chosen one and the runner-up, and what the choice is expected to fall short of the best.

    Without any curve nothing is chosen, and the reason says why.
    """

    cells: tuple[RankedCell, ...]
    chosen: RankedCell | None
    runner_up: RankedCell | None
    expected_regret: float | None
    equivalent: tuple[RankedCell, ...]
    reason: str


def recommend(view: View, beliefs: Beliefs, final_gpu_hours: float, cells: Mapping[Cell, CellFacts]) -> Ranked:
    """Rank all cells by expected score at the target, those in the competition first, those without a curve last.

    The expectation is what a choice is to be ranked by; what is shown is the median with its interval. The expected
    regret is E[max] − E[chosen] over the competing configurations with a curve.
    """
    standing = beliefs.standing(view)
    by_cell: dict[Cell, list[int]] = {}
    for row, trial in enumerate(standing.table.trials):
        by_cell.setdefault(trial.cell, []).append(row)
    if missing := sorted(set(by_cell) - set(cells)):
        raise InputError(f"trials of {missing[0]}, of which no facts are given: give those of every cell with a trial")
    entries = [_entry(standing, cell, facts, by_cell.get(cell, []), final_gpu_hours) for cell, facts in cells.items()]
    ordered = sorted(entries, key=lambda entry: entry[0])
    ranked = tuple(replace(cell, rank=rank) for rank, (_, cell) in enumerate(ordered, start=1))
    scored = [cell for cell in ranked if cell.expected_score is not None]
    if not scored:
        return Ranked(ranked, None, None, None, (), _no_curve(view))
    chosen, runner_up = scored[0], scored[1] if len(scored) > 1 else None
    top = scored[0].expected_score or 0.0
    equivalent = tuple(cell for cell in scored[1:] if _near(cell, top) and cell.probability_best)
    competing = np.isfinite(standing.configuration_means)
    regret = None
    if competing.any() and chosen.probability_best is not None:
        regret = max(0.0, standing.outcome.expected_maximum - float(standing.configuration_means.max()))
    reason = _sentence(view, chosen, runner_up, equivalent, regret)
    return Ranked(ranked, chosen, runner_up, regret, equivalent, reason)


def _entry(
    standing: Standing, cell: Cell, facts: CellFacts, rows: list[int], final_gpu_hours: float
) -> tuple[tuple[int, float], RankedCell]:
    """Return a cell, its rank still open, with what it is sorted by; Python's sort keeps the plan's order of equals."""
    trials = [standing.table.trials[row] for row in rows]
    steps = math.floor(final_gpu_hours / facts.gpu_hours_per_step + 1e-9)
    group, told = _evidence(standing, rows)
    mean, median, low, high = _figures(standing, told)
    probability = None
    if told:
        probability = float(standing.probability_best[told[0]])
    elif standing.table["alive"][rows].any():
        probability = standing.outcome.of_each_unseen
    ranked = RankedCell(
        rank=0,
        rollouts_per_prompt=cell[0],
        prompts_per_batch=cell[1],
        update_steps=steps,
        learning_rate=facts.learning_rate,
        recipe=facts.recipe,
        status=status_of(trials),
        gpu_hours_spent=math.fsum(trial.gpu_hours_spent for trial in trials),
        gpu_hours_to_target=steps * facts.gpu_hours_per_step,
        expected_score=median,
        score_low=low,
        score_high=high,
        probability_best=probability,
    )
    return (group, -(mean or 0.0)), ranked


def _evidence(standing: Standing, rows: list[int]) -> tuple[int, list[int]]:
    """Return the rows that speak for a cell, and its group: competing, pruned, failed, without a curve."""
    seen = [row for row in rows if standing.seen[row]]
    pruned = [row for row in seen if standing.table.trials[row].state is TrialState.PRUNED]
    for group, told in enumerate(([row for row in seen if standing.competes[row]], pruned, seen)):
        if told:
            return group, told
    return 3, []


def _figures(standing: Standing, rows: list[int]) -> tuple[float | None, float | None, float | None, float | None]:
    """Return mean, median, low and high of the average of the rows' distributions."""
    if not rows:
        return None, None, None, None
    upper = standing.upper[rows].mean(axis=0, keepdims=True)
    median, low, high = (float(quantile(upper, level)[0]) for level in (0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(masses(upper)[0] @ MIDDLES), median, low, high


def status_of(trials: Iterable[TrialView]) -> str:
    """Return the state that speaks for a cell; one without a trial is proposed."""
    states = {trial.state for trial in trials}
    return next((str(state) for state in STATUS if state in states), PROPOSED)


def _near(cell: RankedCell, top: float) -> bool:
    return cell.expected_score is not None and abs(cell.expected_score - top) <= EQUIVALENT


def _no_curve(view: View) -> str:
    failed = sum(trial.state is TrialState.FAILED for trial in view.trials.values())
    return (
        f"no recommendation: none of the {len(view.trials)} trials has a score after its first update ({failed} "
        "failed); give the sweep more GPU-hours, or run `rlplan retry` for the failed ones"
    )


def _sentence(
    view: View,
    chosen: RankedCell,
    runner_up: RankedCell | None,
    equivalent: tuple[RankedCell, ...],
    regret: float | None,
) -> str:
    parts = [
        f"{chosen.name} for {chosen.update_steps:,} updates: at {hours(view.target_gpu_hours)} GPU-hours it is "
        f"predicted {_told(chosen)}"
    ]
    if regret is None:
        parts.append(f"it is out of the competition ({chosen.status}), as is every other with a curve")
    else:
        parts.append(
            f"P(best) = {chosen.probability_best:.2g}, and it is expected to fall {regret:.2g} short of the best tried"
        )
    if runner_up is None:
        parts.append("nothing else has a curve to compare it with")
    else:
        parts.append(f"the runner-up is {runner_up.name} with {_told(runner_up)}")
    if equivalent:
        names = " and ".join(cell.name for cell in equivalent[:3])
        parts.append(f"within {EQUIVALENT:g}, which is seed noise, it is equivalent to {names}")
    return "; ".join(parts)


def _told(cell: RankedCell) -> str:
    return f"{cell.expected_score:.2f} ({cell.score_low:.2f} to {cell.score_high:.2f})"
