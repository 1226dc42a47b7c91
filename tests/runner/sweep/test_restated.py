from types import SimpleNamespace
from typing import Any, cast

import pytest

from planner.logs.alarms import Scored
from planner.store.finals import ForecastOfFinal
from runner.sweep.monitor import restated

RUN = cast("Any", SimpleNamespace(most_steps=100))


@pytest.mark.parametrize(
    ("every", "from_step", "said_at", "end"),
    [
        (4, 0, 12, 0.9),  # began without any: after a tenth, which is the third validation here
        (4, 4, 12, 0.9),
        (20, 0, 60, 0.9),  # and not before it has three
        (4, 0, 12, 0.2),
        (4, 12, None, 0.9),  # three before the launch: nothing is said twice
        (50, 0, None, 0.9),  # its third would be its end
    ],
)
def test_a_run_launched_unvalidated_is_held_to_its_forecast_after_a_tenth_too(
    every: int, from_step: int, said_at: int | None, end: float
) -> None:
    steps = range(0, 101, every)
    scored = [Scored(step, end if step == steps[-1] else 0.5, 0.01, None) for step in steps]
    forecasts = [
        ForecastOfFinal(step=step, end_score=0.85, end_low=0.8, end_high=0.95) for step in steps if step > from_step
    ]
    clause, numbers = restated(from_step, forecasts, scored, RUN)
    assert numbers.get("restated_step") == said_at
    assert bool(clause) is (said_at is not None)
    if said_at is not None:
        assert numbers["restated_held"] is (end == 0.9)
        assert ("does not hold" in clause) is (end != 0.9)
