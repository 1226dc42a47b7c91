from dataclasses import replace

import pytest

from planner.policy.actions import Advance, Stop
from planner.policy.champion_first import ChampionPolicy, verdict
from planner.view import Champion, Configuration, ScorePoint, TrialState, TrialView, View

CHAMPION = TrialView(1, "n8-B64-s0", 8, 64, 0, TrialState.PLANNED, 0, 5, 1, 100, 1.0, 0.0, 0.0)
TERMS = Champion((Configuration(8, 64),), 100.0, (Configuration(8, 64),))


def test_a_champion_that_fails_before_its_first_score_ends_the_sweep_with_a_reason() -> None:
    failed = replace(CHAMPION, state=TrialState.FAILED)
    other = replace(CHAMPION, trial=2, name="n2-B8-s0", rollouts_per_prompt=2, prompts_per_batch=8)
    view = View({1: failed, 2: other}, 30.0, 100.0, free_workers=1, seed=0, champion=TERMS)
    (action,) = ChampionPolicy().decide(view)
    assert isinstance(action, Stop)
    assert "has no score" in action.why.reason
    assert verdict(view).configuration == failed.configuration


@pytest.mark.parametrize(("start_up", "spent"), [(12.0, 0.0), (12.0, 7.0), (1.0, 0.0), (1.0, 7.0)])
def test_a_challenger_without_a_score_takes_the_place_only_where_none_can_be_paid(
    start_up: float, spent: float
) -> None:
    slow = (("learning_rate", 0.02),)
    flat = tuple(ScorePoint(step, float(step), 0.1, 0.01) for step in range(6))
    champion = replace(CHAMPION, axes=slow, state=TrialState.PAUSED, step=5, gpu_hours_spent=5.0, scores=flat)
    start = (ScorePoint(0, 0.4, 0.1, 0.01),)  # the base model's, whose validation takes GPU-hours
    at_rule = replace(
        CHAMPION, trial=2, start_up_gpu_hours=start_up, gpu_hours_spent=spent, scores=start if spent else ()
    )
    terms = replace(TERMS, candidates=(champion.configuration,))
    view = View({1: champion, 2: at_rule}, 25.0 - spent, 100.0, free_workers=1, seed=0, champion=terms)
    found = verdict(view)
    assert found.switched is (start_up > 10)
    assert ("by its settings alone" in found.why) is found.switched
    assert isinstance(ChampionPolicy().decide(view)[-1], Stop if found.switched else Advance)
    assert not verdict(replace(view, champion=replace(terms, challenger_share=0.0))).switched


@pytest.mark.parametrize(("start_up", "to_step"), [(0.0, 15), (0.4, 15), (0.8, 20), (5.0, 50)])
def test_a_champion_goes_on_beside_a_challenger_in_segments_that_are_worth_their_start(
    start_up: float, to_step: int
) -> None:
    rising = tuple(ScorePoint(step, float(step), 0.1 + step / 50, 0.01) for step in range(0, 11, 5))
    champion = replace(CHAMPION, segment_steps=5, state=TrialState.PAUSED, step=10, gpu_hours_spent=10.0, scores=rising)
    champion = replace(champion, start_up_gpu_hours=start_up)
    beside = replace(CHAMPION, trial=2, name="n16-B32-s0", rollouts_per_prompt=16, state=TrialState.RUNNING)
    view = View(
        {1: champion, 2: beside}, 60.0, 1000.0, free_workers=1, seed=0, champion=replace(TERMS, total_gpu_hours=250.0)
    )
    (action,) = ChampionPolicy().decide(view)
    assert isinstance(action, Advance)
    assert (action.trial, action.to_step) == (1, to_step)
