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
    ("change", "flag"),
    [
        ({"loss": math.nan}, "nan-loss"),
        ({"grad_norm": math.inf}, "nan-loss"),
        ({"entropy": 0.001}, "entropy-collapse"),
        ({"truncated_share": 0.16}, "truncation"),
    ],
)
def test_each_sign_has_its_flag(change: dict[str, float], flag: str) -> None:
    assert HealthWatch().flags({**WELL, **change}) == (flag,)


def test_a_healthy_update_has_none() -> None:
    assert HealthWatch().flags(WELL) == ()


def test_a_mastered_task_may_be_certain() -> None:
    assert HealthWatch().flags({**WELL, "entropy": 0.001, "pass_rate": 0.99}) == ()


def test_a_reward_that_falls_for_good_is_a_collapse_and_one_poor_batch_is_none() -> None:
    health = HealthWatch()
    for pass_rate in (0.6, 0.6, 0.6, 0.6, 0.6, 0.0, 0.6):
        assert health.flags({**WELL, "pass_rate": pass_rate}) == ()
    flags = [health.flags({**WELL, "pass_rate": 0.02}) for _ in range(6)]
    assert flags[-1] == ("reward-collapse",)


def test_it_remembers_across_a_resume() -> None:
    health, other = HealthWatch(), HealthWatch()
    for _ in range(6):
        health.flags({**WELL, "pass_rate": 0.8})
    other.restore(health.state())
    fallen = [(health.flags({**WELL, "pass_rate": 0.0}), other.flags({**WELL, "pass_rate": 0.0})) for _ in range(5)]
    assert all(one == same for one, same in fallen)
    assert fallen[-1][1] == ("reward-collapse",)


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
    assert result.rollouts == 16


def test_the_same_problems_are_asked_every_time_with_other_samples() -> None:
    engine = ScriptedEngine(lambda prompt, _: right(prompt))
    for step in (0, 10):
        assert validate(engine, tiny_task(), PLAN, seed=3, step=step).mean == 1.0
    assert engine.asked[0] == engine.asked[1]
    assert engine.seeds[0] != engine.seeds[1]


def test_one_problem_has_no_spread() -> None:
    plan = ValidationPlan(problems=1, samples=2, every_rollouts=1)
    result = validate(ScriptedEngine(lambda prompt, _: right(prompt)), tiny_task(), plan, seed=0, step=0)
    assert (result.mean, result.standard_error) == (1.0, 0.0)
