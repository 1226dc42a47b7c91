import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.belief.pool import Pool
from planner.policy.actions import Action, Advance, Finish, Propose, Prune, Stop
from planner.policy.chances import Chances
from planner.policy.grants import grant
from planner.policy.informed import DRAWS
from planner.policy.policies import POLICIES, open_policy
from planner.view import MOVES, Configuration, OpenCell, ScorePoint, TrialState, TrialView, View, has_curve
from tests.planner.policy.views import trial, view

OPEN = [OpenCell(2**i, 2**j, 5, 0.4, 0.1) for i in range(1, 8) for j in range(2, 9)]
SEEDS = (0, 1)


@st.composite
def trial_views(draw: st.DrawFn, number: int) -> TrialView:
    state = draw(st.sampled_from(list(TrialState)))
    step = draw(st.sampled_from([0, 2, 5, 10, 15, 20, 45, 100]))
    per_step = draw(st.sampled_from([0.1, 0.5, 2.0]))
    count = draw(st.integers(0, min(step, 6)))
    values = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
    steps = [round((i + 1) * step / count) for i in range(count)] if count else []
    errors = draw(st.sampled_from([None, 0.02]))
    start = (ScorePoint(0, 0.0, 0.2, errors),) if draw(st.booleans()) else ()
    return trial(
        number,
        state,
        step=step,
        cell=(2 ** draw(st.integers(1, 7)), 2 ** draw(st.integers(2, 8))),
        seen=start + tuple(ScorePoint(s, s * per_step, v, errors) for s, v in zip(steps, values, strict=True)),
        seed=draw(st.sampled_from(SEEDS)),
        gpu_hours_per_step=per_step,
        gpu_hours_spent=step * per_step,
        start_up_gpu_hours=draw(st.sampled_from([0.0, 0.3])),
        resting=draw(st.booleans()) if state in {TrialState.PLANNED, TrialState.PAUSED} else False,
        proposed=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def views(draw: st.DrawFn) -> View:
    trials = [draw(trial_views(number)) for number in range(1, draw(st.integers(0, 9)) + 1)]
    taken = {each.cell for each in trials}
    drawn = view(
        trials,
        left=draw(st.sampled_from([0.0, 0.2, 1.0, 5.0, 60.0, 1e4])),
        target=draw(st.sampled_from([20.0, 100.0])),
        free=draw(st.integers(0, 4)),
        seed=draw(st.sampled_from(SEEDS)),
        open_cells=[cell for cell in OPEN if cell.cell not in taken] if draw(st.booleans()) else [],
    )
    return replace(drawn, rest_to_final=draw(st.booleans()), replicates=draw(st.booleans()))


def _asked(action: Propose) -> Configuration:
    return Configuration(action.rollouts_per_prompt, action.prompts_per_batch, action.axes)


def check_legal(seen: View, actions: list[Action]) -> None:
    touched = [action.trial for action in actions if isinstance(action, Advance | Prune | Finish)]
    assert len(touched) == len(set(touched))
    for action in actions:
        json.dumps([action.why.figures, action.why.alternatives], allow_nan=False)
        assert action.why.reason
        assert len(action.why.alternatives) <= 5
        if isinstance(action, Advance):
            one = seen.trials[action.trial]
            assert one.ready
            assert one.step < action.to_step <= one.most_steps
        elif isinstance(action, Prune):
            assert TrialState.PRUNED in MOVES[seen.trials[action.trial].state]
            assert seen.trials[action.trial].state is not TrialState.RUNNING
        elif isinstance(action, Finish):
            assert seen.trials[action.trial].state is TrialState.PAUSED
        elif isinstance(action, Propose) and action.seed is None:
            assert _asked(action) in seen.open_cells
        elif isinstance(action, Propose):
            seeds = {each.seed for each in seen.trials.values() if each.configuration == _asked(action)}
            assert seen.replicates
            assert action.seed == max(seeds) + 1


def check_affordable(seen: View, actions: list[Action]) -> None:
    left = seen.gpu_hours_left
    for action in actions:
        if isinstance(action, Advance):
            granted = grant(seen.trials[action.trial], action.to_step, left)
            assert granted is not None
            left -= granted.gpu_hours
    proposed = [action for action in actions if isinstance(action, Propose) and action.seed is None]
    assert all(seen.open_cells[_asked(a)].price <= left for a in proposed)


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(seen=views())
def test_every_answer_is_legal_affordable_and_the_same_again(policy: str, seen: View) -> None:
    actions = list(open_policy(policy).decide(seen))
    check_legal(seen, actions)
    check_affordable(seen, actions)
    assert sum(isinstance(action, Advance) for action in actions) <= seen.free_workers
    if any(isinstance(action, Stop) for action in actions):
        assert not any(isinstance(action, Advance | Propose) for action in actions)
    if not seen.rest_to_final:
        assert not any("final run gains" in action.why.reason for action in actions)
    assert list(open_policy(policy).decide(seen)) == actions


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(views(), min_size=2, max_size=3))
def test_what_a_policy_keeps_never_changes_its_answer(policy: str, history: list[View]) -> None:
    kept = open_policy(policy)
    for seen in history:
        assert list(kept.decide(seen)) == list(open_policy(policy).decide(seen))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(views(), st.floats(0.0, 0.49))
def test_pruning_never_hits_the_leader_and_leaves_two_configurations(seen: View, alpha: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.policy.informed.ALPHA", alpha)
        decided = open_policy("rlplan").decide(seen)
    pruned = {a.trial for a in decided if isinstance(a, Prune)}
    if not any(has_curve(each) for each in seen.trials.values()):
        assert not pruned
        return
    chances = Chances(seen, Pool().joint_draws(seen, DRAWS))
    leader = chances.candidates[chances.leader]
    assert leader not in {seen.trials[number].configuration for number in pruned}
    kept = set(chances.candidates) - {seen.trials[number].configuration for number in pruned}
    assert len(kept) >= min(2, len(chances.candidates))
