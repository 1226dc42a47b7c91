"""What a plan's rows say of the configurations that they stand for."""

from collections.abc import Iterable

from planner.axes import LEARNING_RATE, without
from planner.store.schema import Candidate, Trial
from planner.view import Axes, Configuration


def configuration_of(row: Candidate | Trial) -> Configuration:
    """Return what a candidate or trial is compared as."""
    return Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)


def start_ups(candidates: Iterable[Candidate], otherwise: float) -> dict[Axes, float]:
    """Return what the plan reckons for a start-up, by the axes that it depends on; the largest where no pilot says."""
    found: dict[Axes, list[Candidate]] = {}
    for each in candidates:
        found.setdefault(without(each.axes, LEARNING_RATE), []).append(each)
    return {
        axes: start_up_gpu_hours(rows) if any(each.pilot_steps for each in rows) else otherwise
        for axes, rows in found.items()
    }


def start_up_gpu_hours(candidates: Iterable[Candidate]) -> float:
    """Return what the plan reckons for a start-up: the pilots' price less that of their steps."""
    return max(
        0.0,
        *(each.pilot_gpu_hours - each.pilot_steps * each.gpu_hours_per_step for each in candidates if each.pilot_steps),
        0.0,
    )
