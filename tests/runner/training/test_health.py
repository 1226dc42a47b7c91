import math

import pytest

from runner.training.trainer import Health

WELL = {"loss": 0.1, "grad_norm": 1.0, "entropy": 0.5, "pass_rate": 0.5, "truncated_share": 0.0}


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
    assert Health().flags({**WELL, **change}) == (flag,)


def test_a_healthy_update_has_none() -> None:
    assert Health().flags(WELL) == ()


def test_a_mastered_task_may_be_certain() -> None:
    assert Health().flags({**WELL, "entropy": 0.001, "pass_rate": 0.99}) == ()


def test_a_reward_that_falls_for_good_is_a_collapse_and_one_poor_batch_is_none() -> None:
    health = Health()
    for pass_rate in (0.6, 0.6, 0.6, 0.6, 0.6, 0.0, 0.6):
        assert health.flags({**WELL, "pass_rate": pass_rate}) == ()
    flags = [health.flags({**WELL, "pass_rate": 0.02}) for _ in range(6)]
    assert flags[-1] == ("reward-collapse",)


def test_it_remembers_across_a_resume() -> None:
    health, other = Health(), Health()
    for _ in range(6):
        health.flags({**WELL, "pass_rate": 0.8})
    other.restore(health.state())
    fallen = [(health.flags({**WELL, "pass_rate": 0.0}), other.flags({**WELL, "pass_rate": 0.0})) for _ in range(5)]
    assert all(one == same for one, same in fallen)
    assert fallen[-1][1] == ("reward-collapse",)
