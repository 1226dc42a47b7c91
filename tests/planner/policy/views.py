"""Makes views for tests: trials with the scores they would have had along a sigmoid."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.view import OpenCell, ScorePoint, TrialState, TrialView, View

CELLS = tuple((n, B) for B in (16, 32, 64, 128, 256) for n in (4, 8, 16, 32, 64))


def sigmoid(x: float, start: float, asymptote: float, middle: float, exponent: float = 1.5) -> float:
    return start + (asymptote - start) / (1 + (middle / x) ** exponent) if x > 0 else start


def scores(
    steps: int, per_step: float, asymptote: float, middle: float, *, noise: float = 0.01, seed: int = 0
) -> tuple[ScorePoint, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        ScorePoint(
            step,
            step * per_step,
            float(np.clip(sigmoid(step * per_step, 0.2, asymptote, middle) + noise * rng.normal(), 0, 1)),
            noise,
        )
        for step in range(steps + 1)
    )


def trial(
    number: int,
    state: TrialState = TrialState.PLANNED,
    *,
    step: int = 0,
    asymptote: float = 0.7,
    middle: float = 8.0,
    cell: tuple[int, int] | None = None,
    seen: Sequence[ScorePoint] | None = None,
    **others: Any,
) -> TrialView:
    n, B = cell or CELLS[number % len(CELLS)]
    fields: dict[str, Any] = {
        "seed": 0,
        "pilot_steps": 20,
        "segment_steps": 5,
        "most_steps": 100,
        "gpu_hours_per_step": 1.0,
        "start_up_gpu_hours": 0.1,
        "gpu_hours_spent": float(step),
    }
    fields |= others
    wanted = bool(step) and seen is None
    made = scores(step, fields["gpu_hours_per_step"], asymptote, middle, seed=number) if wanted else ()
    return TrialView(
        trial=number,
        name=f"n{n}-B{B}-s{fields['seed']}-{number}",
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        state=state,
        step=step,
        scores=tuple(seen) if seen is not None else made,
        **fields,
    )


def view(
    trials: Sequence[TrialView],
    *,
    left: float = 1000.0,
    target: float = 100.0,
    free: int = 2,
    seed: int = 0,
    open_cells: Sequence[OpenCell] = (),
) -> View:
    return View(
        trials={each.trial: each for each in trials},
        gpu_hours_left=left,
        target_gpu_hours=target,
        free_workers=free,
        seed=seed,
        open_cells={each.configuration: each for each in open_cells},
    )
