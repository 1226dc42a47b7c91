"""What the last of the pilots' money is spent on."""

from collections.abc import Sequence

import pytest

from planner.axes import named_configuration
from planner.sweeping.actions import Action, Advance, Prune
from planner.sweeping.informed import FINALISTS, InformedPolicy
from planner.view import TrialView, View
from tests.planner.pooling.sweeps import Curve, along
from tests.planner.sweeping.test_policies import check_affordable, check_legal
from tests.planner.sweeping.views import view

TOPS = (0.80, 0.81, 0.82, 0.83, 0.70)
PLACES = ((8, 16), (8, 32), (8, 64), (8, 128), (8, 256))


def sweep(step: int, *, left: float, free: int = 1, tops: Sequence[float] = TOPS) -> View:
    """Make five runs, four of them near-equal, all trained as far; a step takes a GPU-hour and a run a hundred."""
    curves = [Curve(0.2, top, 0.08, 1.5) for top in tops]
    return view(
        [along(n, cell, curve, step) for n, (cell, curve) in enumerate(zip(PLACES, curves, strict=True), 1)],
        left=left,
        free=free,
    )


def trained(seen: View) -> list[Advance]:
    actions: list[Action] = list(InformedPolicy().decide(seen))
    check_legal(seen, actions)
    check_affordable(seen, actions)
    return [action for action in actions if isinstance(action, Advance)]


def to_the_end(seen: View, actions: list[Advance]) -> list[TrialView]:
    return [seen.trials[each.trial] for each in actions if "near-equals" in each.why.reason]


def test_the_last_of_the_money_takes_those_in_front_to_the_end() -> None:
    seen = sweep(60, left=125.0, free=4)
    actions = trained(seen)
    ended = to_the_end(seen, actions)
    assert len(ended) == len(actions) == FINALISTS
    assert 5 not in {each.trial for each in ended}
    assert [each.to_step for each in actions][:2] == [100, 100]
    expected = [each.why.figures["median"] for each in actions]
    assert expected == sorted(expected, reverse=True)


def test_of_one_worker_the_best_goes_first_and_the_others_follow() -> None:
    seen = sweep(60, left=125.0)
    (first,) = trained(seen)
    assert first.trial in {3, 4}
    assert f"{FINALISTS} to go" in first.why.reason
    others = {each["configuration"] for each in first.why.alternatives}
    assert others
    assert named_configuration(seen.trials[first.trial].configuration) not in others


@pytest.mark.parametrize(
    ("step", "left"),
    [(60, 1000.0), (10, 200.0)],
    ids=["more is left than their ends take", "it has had 50, and their ends take 270"],
)
def test_what_tells_most_is_bought_while_the_money_is_not_for_their_ends(step: int, left: float) -> None:
    seen = sweep(step, left=left)
    assert trained(seen)
    assert not to_the_end(seen, trained(seen))


def test_what_is_given_up_at_the_same_moment_is_not_among_them() -> None:
    seen = sweep(60, left=100.0, free=4, tops=(0.8, 0.8, 0.2, 0.2, 0.2))
    actions = list(InformedPolicy().decide(seen))
    check_legal(seen, actions)
    assert {action.trial for action in actions if isinstance(action, Prune)} == {3, 4, 5}
    assert {action.trial for action in actions if isinstance(action, Advance)} == {1, 2}
