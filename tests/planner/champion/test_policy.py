from dataclasses import replace

from planner.champion.policy import ChampionPolicy
from planner.champion.verdict import verdict
from planner.sweeping.actions import Stop
from planner.trials import TrialState
from planner.view import Champion, Configuration, TrialView, View

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
