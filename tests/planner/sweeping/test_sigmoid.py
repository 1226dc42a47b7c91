from dataclasses import replace

import numpy as np
import pytest

from budgets.errors import InputError, UnknownNameError
from planner.sweeping.actions import Advance, Finish, Propose, Prune, Stop
from planner.sweeping.beliefs import Beliefs
from planner.sweeping.gain import knowledge_gradient, resolved_share
from planner.sweeping.opening import open_policy
from planner.sweeping.pruning import Front, bar
from planner.sweeping.sigmoid import SigmoidPolicy
from planner.sweeping.view import OpenCell, Seen, TrialView
from planner.trials import TrialState
from tests.planner.sweeping.views import trial, view

PAUSED = TrialState.PAUSED


def good_and_bad(step: int = 40) -> list[TrialView]:
    """Two that are near each other, one that is far below, all of them well advanced."""
    return [trial(i, PAUSED, step=step, asymptote=top, middle=4.0) for i, top in enumerate((0.70, 0.72, 0.35))]


def test_what_cannot_win_is_pruned_with_its_numbers() -> None:
    actions = open_policy("rlplan").decide(view(good_and_bad()))
    (pruned,) = [action for action in actions if isinstance(action, Prune)]
    assert pruned.trial == 2
    assert pruned.why.seen["probability_best"] < pruned.why.seen["limit"] == 0.02
    assert pruned.why.seen["high"] < pruned.why.seen["leader_low"]
    assert pruned.why.reason.startswith("P(n=16, B=16 is best at 100 GPU-hours) is ")
    assert "below 0.02; n=8, B=16 is predicted" in pruned.why.reason


def test_the_two_best_configurations_are_kept_until_the_money_is_gone() -> None:
    two = [good_and_bad()[i] for i in (1, 2)]
    assert not any(isinstance(action, Prune) for action in SigmoidPolicy(alpha=0.4).decide(view(two)))


def test_with_alpha_zero_nothing_is_pruned() -> None:
    assert not any(isinstance(action, Prune) for action in SigmoidPolicy(alpha=0).decide(view(good_and_bad())))


def test_a_curve_that_cannot_be_identified_is_kept_while_it_may_reach_the_leader() -> None:
    # Four points are too few to say where a curve goes, however low they are.
    late = trial(2, PAUSED, step=4, seen=[Seen(i, float(i), 0.02 + 0.001 * i, 0.005) for i in range(1, 5)])
    trials = [*good_and_bad()[:2], late]
    beliefs = Beliefs()
    belief = beliefs.of(view(trials))[2]
    standing = beliefs.standing(view(trials))
    leader = Front.of(standing).leader
    assert belief.verdict == "not-identifiable"
    assert leader is not None
    assert belief.high > standing.low[leader]
    actions = SigmoidPolicy(alpha=0.49).decide(view(trials))
    assert standing.probability_best_of_seen[2] < bar(0.49, 3)
    assert not any(isinstance(action, Prune) for action in actions)


@pytest.mark.parametrize(("configurations", "limit"), [(2, 0.02), (10, 0.02), (100, 0.002), (10_000, 0.00002)])
def test_the_bar_falls_with_the_even_chance(configurations: int, limit: float) -> None:
    assert bar(0.02, configurations) == pytest.approx(limit)


def test_many_equal_configurations_are_all_kept() -> None:
    rng = np.random.default_rng(0)
    trials = [
        trial(i, PAUSED, step=30, asymptote=0.7 + 0.01 * rng.normal(), middle=4.0, cell=(2 ** (i % 8), 2 ** (i // 8)))
        for i in range(64)
    ]
    pruned = [action for action in open_policy("rlplan").decide(view(trials)) if isinstance(action, Prune)]
    assert len(pruned) < 16


def test_every_planned_trial_gets_its_first_segment_in_planned_order() -> None:
    trials = [*good_and_bad(), trial(3), trial(4), trial(5)]
    actions = open_policy("rlplan").decide(view(trials, free=2))
    assert [(a.trial, a.to_step) for a in actions if isinstance(a, Advance)] == [(3, 5), (4, 5)]


def test_it_goes_on_where_the_gain_per_gpu_hour_is_highest() -> None:
    trials = [*good_and_bad(), trial(3, PAUSED, step=40, asymptote=0.7, middle=4.0, gpu_hours_per_step=1.0)]
    dear = replace(trials[3], start_up_gpu_hours=500.0)
    actions = open_policy("rlplan").decide(view([*trials[:3], dear], left=10_000, target=400, free=4))
    advances = [action for action in actions if isinstance(action, Advance)]
    rates = [action.why.seen["gain_per_gpu_hour"] for action in advances]
    assert rates == sorted(rates, reverse=True)
    assert advances[-1].trial == 3


def test_it_goes_past_the_pilot_and_closes_what_has_had_everything() -> None:
    trials = [trial(0, PAUSED, step=100, asymptote=0.7), *(trial(i, PAUSED, step=20, asymptote=0.7) for i in (1, 2))]
    actions = open_policy("rlplan").decide(view(trials, target=400, free=2))
    assert [action.trial for action in actions if isinstance(action, Finish)] == [0]
    assert {action.to_step for action in actions if isinstance(action, Advance)} == {25}


def test_it_stops_when_the_leader_is_as_good_as_certain() -> None:
    trials = [trial(i, PAUSED, step=95, asymptote=top, middle=2.0) for i, top in enumerate((0.95, 0.3))]
    (stop,) = open_policy("rlplan").decide(view(trials))
    assert isinstance(stop, Stop)
    assert stop.why.reason.startswith("nothing can be gained by more training: P(n=4, B=16 is best")
    assert stop.why.seen["probability_best"] > 0.99


def test_alternatives_are_the_next_best_with_their_numbers() -> None:
    trials = [trial(i, PAUSED, step=20, asymptote=0.7) for i in range(8)]
    (advance,) = [a for a in open_policy("rlplan").decide(view(trials, free=1)) if isinstance(a, Advance)]
    rates = [one["gain_per_gpu_hour"] for one in advance.why.alternatives]
    assert len(rates) == 5
    assert [advance.why.seen["gain_per_gpu_hour"], *rates] == sorted([advance.why.seen["gain_per_gpu_hour"], *rates])[
        ::-1
    ]


def test_a_fresh_pilot_is_proposed_when_it_promises_more_and_never_beyond_half_of_the_plan() -> None:
    trials = [trial(i, PAUSED, step=95, asymptote=0.5, middle=2.0, most_steps=1000) for i in range(4)]
    cells = [OpenCell(4 * 2**i, 32, 5, 1.0, 0.1) for i in range(3)]
    (proposal,) = open_policy("rlplan").decide(view(trials, open_cells=cells))
    assert isinstance(proposal, Propose)
    assert "a fresh pilot promises" in proposal.why.reason
    assert (proposal.rollouts_per_prompt, proposal.prompts_per_batch) in {cell.cell for cell in cells}
    full = [*trials, *(replace(each, trial=9 + i, proposed=True) for i, each in enumerate(trials[:2]))]
    for seen, search in ((full, "tpe"), (trials, None)):
        actions = open_policy("rlplan", search=search).decide(view(seen, open_cells=cells))
        assert not any(isinstance(action, Propose) for action in actions)


def test_what_cannot_be_paid_for_is_not_proposed() -> None:
    trials = [trial(i, PAUSED, step=95, asymptote=0.5, middle=2.0, most_steps=1000) for i in range(4)]
    dear = [OpenCell(8, 32, 5, 100.0, 0.1)]
    assert not any(
        isinstance(a, Propose) for a in open_policy("rlplan").decide(view(trials, left=400, open_cells=dear))
    )


def test_options_are_checked() -> None:
    with pytest.raises(InputError, match="alpha"):
        SigmoidPolicy(alpha=0.7)
    with pytest.raises(UnknownNameError, match="sampler"):
        SigmoidPolicy(search="bayes")


def test_the_knowledge_gradient_is_the_expected_gain_of_choosing_afterwards() -> None:
    mean, rival, moved = np.array([0.5, 0.7, 0.3]), 0.6, np.array([0.1, 0.2, 0.05])
    after = mean + moved * np.random.default_rng(0).standard_normal((1_000_000, 3))
    drawn = np.maximum(after, rival).mean(axis=0) - np.maximum(mean, rival)
    assert knowledge_gradient(mean, rival, moved) == pytest.approx(drawn, abs=3e-4)
    assert knowledge_gradient(0.5, 0.6, 0.0) == 0


def test_what_a_segment_resolves() -> None:
    assert resolved_share(10.0, 100.0, 100.0) == 1
    assert resolved_share(100.0, 110.0, 100.0) == 0
    assert 0 < resolved_share(10.0, 15.0, 100.0) < resolved_share(10.0, 30.0, 100.0) < 1


def test_what_has_had_everything_is_finished_and_not_pruned() -> None:
    trials = [*good_and_bad()[:2], trial(2, PAUSED, step=100, asymptote=0.35, middle=4.0)]
    actions = open_policy("rlplan").decide(view(trials))
    assert [type(action) for action in actions if isinstance(action, Finish | Prune)] == [Finish]
