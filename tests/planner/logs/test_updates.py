import math

import pytest

from planner.logs.alarms import UpdateWatch

DEAD = {"loss": 0.0, "grad_norm": 0.0, "pass_rate": 0.0, "zero_variance_share": 1.0}


def test_five_updates_without_any_signal_are_a_dead_run() -> None:
    watch = UpdateWatch(groups=16)

    warned = [watch.see(step, DEAD) for step in range(1, 6)]

    assert [each is None for each in warned] == [True] * 4 + [False]
    assert warned[-1] is not None
    assert (warned[-1].rule, "up to 5" in warned[-1].evidence) == ("dead", True)


@pytest.mark.parametrize("alive", [{"pass_rate": 0.5}, {"grad_norm": 0.1, "zero_variance_share": 0.9}])
def test_one_update_with_signal_begins_the_count_anew(alive: dict[str, float]) -> None:
    watch = UpdateWatch(groups=16)
    for step in range(4):
        watch.see(step, DEAD)
    watch.see(4, {**DEAD, **alive})

    assert watch.see(5, DEAD) is None


def test_a_mastered_run_and_one_of_few_groups_are_not_dead() -> None:
    mastered, small = UpdateWatch(groups=16), UpdateWatch(groups=4)

    assert all(mastered.see(step, {**DEAD, "pass_rate": 1.0}) is None for step in range(20))
    assert all(small.see(step, DEAD) is None for step in range(20))


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf, None], ids=str)
def test_a_number_that_is_not_finite_is_named(name: str, value: float | None) -> None:
    """Also as it is stored, where JSON has a null for it."""
    warned = UpdateWatch().see(7, {"loss": 0.1, "grad_norm": 1.0, name: value})

    assert warned is not None
    said = "not a finite number" if value is None else value
    assert (warned.rule, warned.evidence) == ("not-finite", f"{name} is {said} in update 7")


def test_what_it_remembers_goes_on_after_a_resume() -> None:
    watch, other = UpdateWatch(groups=16), UpdateWatch(groups=16)
    for step in range(4):
        watch.see(step, DEAD)
    other.restore(watch.state())

    assert other.see(4, DEAD) == watch.see(4, DEAD) is not None
