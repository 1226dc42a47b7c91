from collections.abc import Sequence

import numpy as np
import pytest

from budgets.errors import UnknownNameError
from planner.policy.actions import Action, Advance, Finish, Prune, Stop
from planner.policy.halving import dealt
from planner.policy.policies import POLICIES, open_policy
from planner.view import ScorePoint, TrialState, TrialView, View
from tests.planner.policy.views import trial, view

PAUSED, PLANNED, RUNNING = TrialState.PAUSED, TrialState.PLANNED, TrialState.RUNNING


def level(number: int, score: float, step: int, state: TrialState = PAUSED) -> TrialView:
    """A trial whose every score is the same."""
    return trial(number, state, step=step, seen=[ScorePoint(at, float(at), score, 0.01) for at in range(step + 1)])


def advanced(policy: str, seen: View) -> list[tuple[int, int]]:
    actions = open_policy(policy).decide(seen)
    return [(action.trial, action.to_step) for action in actions if isinstance(action, Advance)]


def of_kind(actions: Sequence[Action], kind: type[Prune] | type[Finish]) -> list[int]:
    return [action.trial for action in actions if isinstance(action, kind)]


def test_every_name_opens_its_policy() -> None:
    assert [open_policy(name).name for name in POLICIES] == list(POLICIES)
    with pytest.raises(UnknownNameError, match="did you mean 'asha'"):
        open_policy("ashaa")


def test_full_closes_what_had_its_pilot_and_makes_a_cut_segment_whole() -> None:
    actions = open_policy("full").decide(view([level(0, 0.5, 20), level(1, 0.5, 12)]))
    assert of_kind(actions, Finish) == [0]
    assert [action.to_step for action in actions if isinstance(action, Advance)] == [15]


def test_random_takes_trials_in_an_order_that_only_the_seed_decides() -> None:
    trials = [trial(i) for i in range(8)]
    firsts = {advanced("random", view(trials, seed=seed, free=1))[0] for seed in range(30)}
    assert len(firsts) > 4
    assert advanced("random", view(trials, seed=3)) == advanced("random", view([*trials], seed=3))


@pytest.mark.parametrize(("best", "pruned"), [(0.39, True), (0.40, False), (0.41, False)])
def test_median_stops_what_is_strictly_below_the_median_of_running_averages(best: float, pruned: bool) -> None:
    others = [level(i, score, 10) for i, score in ((1, 0.3), (2, 0.4), (3, 0.5))]
    actions = open_policy("median").decide(view([level(0, best, 10), *others], free=4))
    assert (0 in of_kind(actions, Prune)) is pruned


def test_median_counts_only_others_that_have_come_as_far() -> None:
    others = [level(i, 0.9, 5) for i in (1, 2, 3)]
    assert of_kind(open_policy("median").decide(view([level(0, 0.1, 10), *others], free=4)), Prune) == []


def test_median_grants_a_first_segment_and_names_its_numbers() -> None:
    others = [level(i, 0.9, 10, RUNNING) for i in (1, 2, 3)]
    short, late = level(0, 0.1, 2), level(4, 0.1, 5)
    actions = open_policy("median").decide(view([short, *others, late]))
    assert of_kind(actions, Prune) == [4]
    why = next(action.why for action in actions if isinstance(action, Prune))
    assert why.figures["median"] == pytest.approx(0.9)
    assert "is 0.100, below 0.900" in why.reason


RUNG = [level(i, 0.1 * i, 5) for i in range(1, 7)]
GONE_ON = trial(1, PAUSED, step=15, seen=[ScorePoint(5, 5.0, 0.9, None), ScorePoint(15, 15.0, 0.1, None)])
HIGH = [level(i, 0.1 * i, 15) for i in (1, 2, 3)]
LOW = [level(i, 0.05, 5) for i in (4, 5, 6, 7, 8, 9)]


@pytest.mark.parametrize(
    ("policy", "seen", "expected"),
    [
        ("full", view([trial(0), level(1, 0.5, 5), trial(2), level(3, 0.5, 20)]), [(1, 10), (0, 5)]),
        ("full", view([level(0, 0.5, 5), trial(1), trial(2)], left=20.0), [(1, 5), (2, 5)]),
        ("asha", view([*RUNG, trial(7)], free=3), [(6, 15), (5, 15), (7, 5)]),
        ("asha", view([level(1, 0.5, 5), level(2, 0.6, 5), trial(3)], free=1), [(3, 5)]),
        ("asha", view([GONE_ON, level(2, 0.5, 5), level(3, 0.6, 5), trial(4)], free=1), [(4, 5)]),
        ("asha", view([*HIGH, *LOW, level(10, 0.05, 9)], free=3), [(10, 15), (3, 45)]),
    ],
    ids=[
        "one after the other while there is money for all",
        "what does not suffice is spread",
        "the best third of a rung is promoted",
        "a new trial starts when none can be promoted",
        "those that went on count by their score at the rung",
        "the highest rung goes first, after what was cut short",
    ],
)
def test_trials_go_on_by_the_rule_of_their_policy(policy: str, seen: View, expected: list[tuple[int, int]]) -> None:
    assert advanced(policy, seen) == expected


def test_asha_goes_past_the_pilot_with_money_that_is_left() -> None:
    trials = [level(1, 0.2, 45), level(2, 0.5, 45)]
    assert advanced("asha", view(trials, free=1)) == [(2, 100)]
    assert of_kind(open_policy("asha").decide(view([level(1, 0.2, 100)])), Finish) == [1]


def test_hyperband_deals_trials_to_brackets_in_the_published_shares() -> None:
    # η = 3, s_max = 2: brackets of 9, 5 and 3 trials that begin with 1, 3 and 9 segments.
    assert np.bincount(dealt(17, 2)).tolist() == [9, 5, 3]
    assert np.bincount(dealt(1700, 2)).tolist() == [900, 500, 300]
    assert set(dealt(6, 0)) == {0}


def test_hyperbands_brackets_begin_at_their_rungs_and_compare_within() -> None:
    brackets = dealt(12, 1)
    assert advanced("hyperband", view([trial(i) for i in range(12)], free=12)) == [
        (i, 15 if bracket else 5) for i, bracket in enumerate(brackets)
    ]
    long = [i for i in range(12) if brackets[i]]
    trials = [level(i, 0.9, 15) if i in long else level(i, 0.01 * i, 5) for i in range(12)]
    short_best = max(i for i in range(12) if not brackets[i])
    assert (short_best, 15) in advanced("hyperband", view(trials, free=12))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_says_that_the_money_is_out(policy: str) -> None:
    for left in (0.0, 1.2):  # a step takes 1.1 with its start-up, and a margin is kept
        actions = open_policy(policy).decide(view([level(0, 0.3, 5), level(1, 0.6, 5), trial(2)], left=left))
        stop = [action for action in actions if isinstance(action, Stop)]
        assert len(stop) == 1
        assert "the money is out" in stop[0].why.reason
        assert not any(isinstance(action, Advance) for action in actions)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("awaited", ["running", "resting"])
def test_no_policy_ends_while_something_is_awaited(policy: str, awaited: str) -> None:
    state = RUNNING if awaited == "running" else PAUSED
    waiting = [trial(i, state, step=5, resting=awaited == "resting") for i in (0, 1)]
    assert list(open_policy(policy).decide(view(waiting, left=100.0))) == []
