"""The whole money over tables that are made up: who goes on, and what challengers may take."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.policy.actions import Advance, Stop
from planner.policy.champion import named_champion, usual_among, usual_champion
from planner.policy.champion_first import ChampionPolicy, verdict
from planner.policy.looks import value_of_look
from planner.replay.play import WholePlayed, play_whole
from planner.replay.recorded import Recorded, RecordedRun
from planner.view import Axes, Champion, Configuration, ScorePoint, TrialState, TrialView, View

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


HOURS = np.linspace(0.0, 100.0, 201)
RULE = ("learning_rate", 1.0)


def run(n: int, B: int, scores: Sequence[float] | np.ndarray, axes: Axes = ()) -> RecordedRun:
    name = f"n{n}-B{B}{axes}"
    return RecordedRun(name, Configuration(n, B, axes), 0, HOURS, np.clip(np.asarray(scores, dtype=float), 0.0, 1.0))


def rising(end: float, midpoint: float = 10.0, base: float = 0.1) -> np.ndarray:
    return base + (end - base) * HOURS / (HOURS + midpoint)


def played(recorded: Recorded, champion: Configuration, **terms: float) -> WholePlayed:
    return play_whole(recorded, Champion((champion,), 100.0, usual_among(recorded.configurations), **terms), seed=0)


USUAL, OTHER, SMALL = Configuration(8, 64), Configuration(16, 32), Configuration(64, 2)


def test_a_healthy_usual_choice_is_left_alone_and_keeps_nearly_all_of_its_hours() -> None:
    recorded = Recorded((run(8, 64, rising(0.8)), run(16, 32, rising(0.8)), run(64, 2, rising(0.6))))
    whole = played(recorded, USUAL)
    assert whole.chosen == USUAL
    assert not whole.switched
    assert whole.challenger_gpu_hours <= 5.0 + 1e-9
    assert whole.reached == pytest.approx(whole.champion_alone, abs=0.01)


def test_a_champion_that_learns_nothing_is_replaced_by_the_usual_choice() -> None:
    recorded = Recorded((run(8, 64, rising(0.8)), run(16, 32, rising(0.8)), run(64, 2, np.full(201, 0.1))))
    whole = played(recorded, SMALL)
    assert whole.switched
    assert whole.chosen == USUAL
    assert whole.reached > whole.champion_alone + 0.5
    assert whole.challenger_gpu_hours <= 10.0 + 1e-9


@pytest.mark.parametrize(
    ("factor", "scores"),
    [(0.25, rising(0.25, 60.0)), (4.0, np.where(HOURS < 3, 0.1 + HOURS / 100, 0.0))],
    ids=["too-low", "dead"],
)
def test_a_rate_off_the_rule_that_gives_alarm_is_mended_by_the_rule_s(factor: float, scores: np.ndarray) -> None:
    axes: Axes = (("learning_rate", factor),)
    recorded = Recorded((run(8, 64, scores, axes), run(8, 64, rising(0.8), (RULE,)), run(2, 8, rising(0.5), axes)))
    whole = played(recorded, Configuration(8, 64, axes))
    assert whole.chosen == Configuration(8, 64, (RULE,))
    assert whole.reached > whole.champion_alone + 0.3


def test_a_higher_rate_is_never_taken_for_its_early_lead() -> None:
    fast: Axes = (("learning_rate", 3.0),)
    recorded = Recorded((run(8, 64, rising(0.8, 30.0), (RULE,)), run(8, 64, rising(0.6, 1.0), fast)))
    assert not played(recorded, Configuration(8, 64, (RULE,))).switched


def test_models_are_raced_before_the_champion_is_fixed() -> None:
    small: Axes = (("model", "small"),)
    large: Axes = (("model", "large"),)
    recorded = Recorded((run(8, 64, rising(0.4), small), run(8, 64, rising(0.9, base=0.3), large)))
    candidates = usual_champion(recorded.configurations)
    whole = play_whole(recorded, Champion(candidates, 100.0, usual_among(recorded.configurations)), seed=0)
    assert len(candidates) == 2
    assert whole.champion.axes == large
    assert whole.reached > whole.champion_alone


def test_alone_takes_no_challenger_whatever_the_start_shows() -> None:
    recorded = Recorded((run(8, 64, rising(0.8)), run(64, 2, np.full(201, 0.1))))
    whole = played(recorded, SMALL, challenger_share=0.0)
    assert (whole.chosen, whole.challenger_gpu_hours) == (SMALL, 0.0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.05, 0.95), min_size=6, max_size=6), st.integers(0, 5), st.integers(0, 3))
def test_challengers_stay_within_their_cap_and_equal_plays_are_equal(ends: list[float], place: int, seed: int) -> None:
    cells = [(8, 64), (16, 32), (64, 2), (2, 128), (4, 16), (32, 8)]
    recorded = Recorded(tuple(run(n, B, rising(end)) for (n, B), end in zip(cells, ends, strict=True)))
    champion = Champion((Configuration(*cells[place]),), 100.0, usual_among(recorded.configurations))
    whole = play_whole(recorded, champion, seed=seed)
    assert whole.challenger_gpu_hours <= 10.0 + 1e-6
    assert whole == play_whole(recorded, champion, seed=seed)


@pytest.mark.parametrize(("mean", "worth"), [(0.1, 0.1), (-0.1, 0.0)])
def test_a_look_that_explains_nothing_is_worth_what_is_known_without_it(mean: float, worth: float) -> None:
    assert value_of_look(mean, 1e-9, 0.0, 0.5, 0.0) == pytest.approx(worth, abs=1e-6)


def test_the_bar_makes_looks_worth_less() -> None:
    worths = [value_of_look(0.0, 0.1, 0.2, bar, 0.0) for bar in (0.5, 0.65, 0.8, 0.95)]
    assert worths == sorted(worths, reverse=True)
    assert worths[-1] < worths[0] / 10


@pytest.mark.parametrize("text", ["n=8", "n=8,B=65", "n=8,B=64,recipe=dapo", "eight"])
def test_a_champion_that_is_none_of_the_table_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--champion"):
        named_champion(text, [USUAL, OTHER])


def test_a_champion_is_named_by_its_sizes_and_has_the_rule_s_rate() -> None:
    rates = [Configuration(8, 64, (("learning_rate", factor),)) for factor in (0.25, 1.0, 4.0)]
    assert named_champion("n=8, B=64", rates) == (rates[1],)
    assert named_champion("n=8,B=64,learning_rate=4", rates) == (rates[2],)
