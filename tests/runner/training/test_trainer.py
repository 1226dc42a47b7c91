import math
from collections.abc import Sequence

import pytest

from runner.ports.trial import ValidationPlan
from runner.training.trainer import HealthWatch, validate
from tests.runner.tiny import tiny_task
from tests.runner.training.scripted import ScriptedEngine, right, wrong

WELL = {"loss": 0.1, "grad_norm": 1.0, "entropy": 0.5, "pass_rate": 0.5, "truncated_share": 0.0}
PLAN = ValidationPlan(problems=4, samples=4, every_rollouts=1)


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        ({"loss": math.nan}, ("nan-loss",)),
        ({"grad_norm": math.inf}, ("nan-loss",)),
        ({"truncated_share": 0.16}, ("truncation",)),
        ({"entropy": 0.001}, ()),  # one update that is certain is no sign, and neither is a poor one
        ({"pass_rate": 0.0}, ()),
    ],
)
def test_each_sign_has_its_flag(change: dict[str, float], flags: tuple[str, ...]) -> None:
    assert HealthWatch().flags(1, {**WELL, **change}) == flags


def test_a_validation_that_falls_is_a_flag_also_after_a_resume() -> None:
    health, other = HealthWatch(), HealthWatch()
    for step, score in enumerate((0.4, 0.5, 0.6, 0.6, 0.6)):
        health.flags(step, {**WELL, "pass_rate": score})
        assert health.scored(step, score, 0.01) == ()
    other.restore(health.state())

    fallen = [(each.scored(5, 0.3, 0.01), each.scored(6, 0.3, 0.01)) for each in (health, other)]

    assert fallen[0] == fallen[1]
    assert fallen[0][1] == ("validation-fall",)


def test_the_score_is_the_mean_over_problems_and_its_error_theirs() -> None:
    asked: list[int] = []

    def answer(prompt: Sequence[int], row: int) -> list[int]:
        asked.append(prompt[0])
        problem = (len(asked) - 1) // PLAN.samples
        return right(prompt) if row < problem else [*wrong(prompt)[:1], 5, 5, 5]  # 0, 1, 2, 3 of 4 are right

    result = validate(ScriptedEngine(answer), tiny_task(), PLAN, seed=0, step=0)
    rates = [0.0, 0.25, 0.5, 0.75]
    assert result.mean == pytest.approx(0.375)
    variance = sum((rate - 0.375) ** 2 for rate in rates) / 3
    assert result.standard_error == pytest.approx(math.sqrt(variance / 4))
    assert (result.best, result.worst) == (0.75, 0.0)
    assert result.further["best@4"] == (0.75, pytest.approx(0.25))
    assert result.further["best@2"][0] == pytest.approx((0 + 1 / 2 + 5 / 6 + 1) / 4)
    assert result.further["worst@2"][0] == pytest.approx((0 + 0 + 1 / 6 + 1 / 2) / 4)
    assert result.further["worst@4"] == (0.0, 0.0)
    assert result.truncated_share == pytest.approx(10 / 16)


def test_the_same_problems_are_asked_every_time_with_other_samples() -> None:
    engine = ScriptedEngine(lambda prompt, _: right(prompt))
    for step in (0, 10):
        assert validate(engine, tiny_task(), PLAN, seed=3, step=step).mean == 1.0
    one = ValidationPlan(problems=1, samples=2, every_rollouts=1)
    assert validate(engine, tiny_task(), one, seed=0, step=0).standard_error == 0.0
    assert engine.asked[0] == engine.asked[1]
    assert engine.seeds[0] != engine.seeds[1]
