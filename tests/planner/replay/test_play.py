import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import IllegalTransitionError, InputError
from planner.belief.pool import Pool
from planner.policy.actions import Action, Advance, Finish, Policy, Propose, Prune, Stop, Why
from planner.policy.policies import POLICIES, open_policy
from planner.replay.game import PilotTerms
from planner.replay.play import Played, highest_last_score, open_chooser, play
from planner.replay.recorded import Recorded
from planner.view import Configuration, TrialState, View
from tests.planner.replay.tables import LENGTH, Watched, grid, run

WHY = Why("because")
GRID = grid()
THREE = Recorded((run("a"), run("b", (16, 4)), run("c", (32, 4))))
TWO = Recorded(THREE.runs[:2])


class Scripted:
    """Does what it is told, one list of actions after the other, and keeps what it saw."""

    name = "scripted"

    def __init__(self, *turns: Sequence[Action] | Callable[[View], Sequence[Action]]) -> None:
        self._turns = itertools.chain(turns, itertools.repeat(()))
        self.views: list[View] = []

    def decide(self, view: View) -> Sequence[Action]:
        self.views.append(view)
        turn = next(self._turns)
        return turn(view) if callable(turn) else turn


def played(
    policy: Policy, recorded: Recorded = GRID, *, budget: float = 100.0, target: float = LENGTH, **more: Any
) -> Played:
    return play(recorded, policy, budget=budget, target=target, seed=3, chooser=highest_last_score, trace=False, **more)


def advance(trial: int, to_step: int) -> Advance:
    return Advance(trial, to_step, WHY)


@given(
    name=st.sampled_from([name for name in POLICIES if name != "rlplan"]),
    share=st.floats(0.001, 1.5),
    target=st.sampled_from([40.0, LENGTH, 130.0]),
    workers=st.sampled_from([1, 3, 8]),
    seed=st.integers(0, 100),
)
@settings(deadline=None, max_examples=25)
def test_no_policy_overspends_sees_what_it_has_not_paid_for_or_goes_on_for_ever(
    name: str, share: float, target: float, workers: int, seed: int
) -> None:
    budget = share * GRID.full_cost(target)
    policy = Watched(open_policy(name))
    result = play(
        GRID, policy, budget=budget, target=target, seed=seed, workers=workers, chooser=highest_last_score, trace=True
    )
    assert 0 <= result.gpu_hours_spent <= budget
    assert 0 <= result.regret <= 1
    assert result.score_at_target + result.regret == pytest.approx(result.best_at_target)
    assert result.wall_hours >= result.gpu_hours_spent / workers - 1e-9
    assert [mark.gpu_hours for mark in result.trace] == sorted(mark.gpu_hours for mark in result.trace)
    assert not result.trace or result.trace[-1].chosen == result.chosen
    for view, _ in policy.decisions:
        trained = math.fsum(trial.gpu_hours_spent for trial in view.trials.values())
        assert trained + view.gpu_hours_left <= budget * (1 + 1e-9)
        running = [trial for trial in view.trials.values() if trial.state is TrialState.RUNNING]
        assert view.free_workers == workers - len(running)
        for trial in view.trials.values():
            paid = trial.step * trial.gpu_hours_per_step
            assert all(seen.gpu_hours <= paid * (1 + 1e-9) for seen in trial.scores)
            assert trial.step > 0 or trial.state is not TrialState.PLANNED or not trial.scores
            assert paid <= min(target, LENGTH) * (1 + 1e-9)


@pytest.mark.parametrize(("name", "workers"), list(zip(POLICIES, [8, 1] * 3, strict=True)))
def test_the_same_seed_gives_the_same_result_and_the_money_is_used(name: str, workers: int) -> None:
    def once(seed: int) -> Played:
        pool = Pool()
        policy = open_policy(name, search=None, pool=pool)
        chooser = open_chooser(name, pool)
        return play(GRID, policy, budget=150, target=LENGTH, seed=seed, workers=workers, chooser=chooser)

    first = once(1)
    assert first == once(1)
    assert name != "random" or len({once(seed).trace for seed in range(2, 6)}) > 1
    assert first.policy == name
    assert first.regret < 0.5
    assert first.gpu_hours_spent == pytest.approx(150, abs=0.5) or name == "rlplan"


def test_a_budget_that_pays_for_everything_finds_the_best_and_one_that_shows_nothing_guesses() -> None:
    recorded = grid(cells=6, seeds=1, noise=0.0)
    result = played(open_policy("full"), recorded, budget=2 * recorded.full_cost(LENGTH))
    assert result.gpu_hours_spent == pytest.approx(recorded.full_cost(LENGTH))
    assert (result.regret, result.guessed) == (0, False)
    late = Recorded((run("a", hours=[60, 100]), run("b", (16, 4), hours=[60, 100], scores=0.6)))
    blind = played(open_policy("random"), late, budget=10)
    assert blind.guessed
    assert blind.chosen in late.configurations


def test_a_point_is_seen_when_the_segment_that_pays_for_it_has_ended() -> None:
    policy = Scripted([advance(1, 249)], [advance(1, 250)], [advance(1, 600)])
    result = played(policy, Recorded((run(scores=[0.1, 0.2, 0.3, 0.4, 0.5]),)))
    seen = [[score.score for score in view.trials[1].scores] for view in policy.views]
    assert seen == [[], [0.1], [0.1, 0.2], [0.1, 0.2, 0.3]]
    assert [score.step for score in policy.views[-1].trials[1].scores] == [0, 250, 500]
    assert (result.decisions, result.gpu_hours_spent) == (3, 60)


def test_workers_run_side_by_side_and_those_that_end_together_are_seen_together() -> None:
    policy = Scripted([advance(1, 500), advance(2, 300), advance(3, 500)], [], [Stop(WHY)])
    result = played(policy, THREE, budget=170, workers=3)
    states = [[trial.state.value for trial in view.trials.values()] for view in policy.views]
    assert states == [["planned"] * 3, ["running", "paused", "running"], ["paused"] * 3]
    assert [view.free_workers for view in policy.views] == [3, 1, 3]
    assert policy.views[0].gpu_hours_left == 170
    assert policy.views[1].gpu_hours_left == pytest.approx(170 - 30 - 1.3 * 100)  # with a margin of 30 %
    assert (result.gpu_hours_spent, result.wall_hours) == pytest.approx((130, 50))


def test_a_segment_is_cut_to_the_money_that_is_left() -> None:
    policy = Scripted([advance(1, 1000)], [advance(2, 1000)], [advance(2, 1000)])
    result = played(policy, TWO, budget=130.0)
    steps = [sorted(trial.step for trial in view.trials.values()) for view in policy.views]
    assert steps == [[0, 0], [0, 1000], [230, 1000], [283, 1000]]  # 30 % are kept back for a segment that takes longer
    assert (result.gpu_hours_spent, result.decisions) == (pytest.approx(128.3), 3)


@pytest.mark.parametrize(
    ("turns", "says"),
    [
        ([[Prune(1, WHY)], [advance(1, 100)]], r"wants to advance .*, which is pruned"),
        ([[advance(2, 100)], [Finish(2, WHY)], [advance(2, 200)]], r"wants to advance .*, which is finished"),
        ([[advance(1, 10), advance(2, 10)]], "1 of 1 workers taken"),
        ([[Propose(8, 4, WHY)]], "proposes n = 8, B = 4, which is not open"),
    ],
)
def test_a_policy_cannot_do_what_a_sweep_could_not(turns: list[list[Action]], says: str) -> None:
    with pytest.raises(IllegalTransitionError, match=says):
        played(Scripted(*turns), TWO)


def test_a_stop_lets_what_runs_end() -> None:
    policy = Scripted([advance(1, 500), Stop(WHY)])
    result = played(policy, TWO, workers=2)
    assert (len(policy.views), result.gpu_hours_spent, result.decisions) == (1, 50, 2)


def test_with_pilots_the_plan_says_how_far_a_trial_is_to_go_and_what_is_open() -> None:
    pilots = {
        Configuration(8, 4): PilotTerms(0.05, 1.0, 400, 500, 2000),
        Configuration(16, 4): PilotTerms(0.1, 1.0, 90, 50, 900, planned=False),
    }
    policy = Scripted([Propose(16, 4, WHY)], [advance(2, 80)])
    result = played(policy, THREE, budget=50, pilots=pilots)
    first, second = policy.views[0], policy.views[1]
    assert [trial.configuration for trial in first.trials.values()] == [Configuration(8, 4)]
    planned, proposed = second.trials.values()
    assert (planned.pilot_steps, planned.segment_steps, planned.most_steps) == (400, 500, 2000)
    assert (proposed.cell, proposed.proposed, proposed.pilot_steps) == ((16, 4), True, 90)
    assert [cell.price for cell in first.open_cells.values()] == [10]
    assert not second.open_cells
    assert (result.decisions, result.gpu_hours_spent) == (2, pytest.approx(9))


COSTLY = {Configuration(n, 4): PilotTerms(1.0, 4.0, 50, 10, 100) for n in (8, 16)}


def test_a_start_up_is_paid_for_by_each_segment_of_a_worker_that_does_not_hold_the_trial() -> None:
    policy = Scripted([advance(1, 10)], [advance(1, 20)], [advance(2, 10)], [advance(1, 30)])
    result = played(policy, TWO, budget=200, pilots=COSTLY)
    spent = [sum(trial.gpu_hours_spent for trial in view.trials.values()) for view in policy.views]
    assert spent == pytest.approx([0, 14, 24, 38, 52])
    assert result.gpu_hours_spent == pytest.approx(52)
    longest = Scripted([advance(1, 100)])
    played(longest, TWO, budget=200, pilots=COSTLY)
    assert longest.views[1].trials[1].step == 34  # 50 GPU-hours, half of its share, with their margin


def test_workers_that_wait_are_charged_for_as_long_as_a_start_up_and_then_ended() -> None:
    policy = Scripted([advance(1, 10), advance(2, 30)])
    result = played(policy, TWO, budget=200, workers=2, pilots=COSTLY, idle_gpu_hours=8.0)
    assert policy.views[0].gpu_hours_left == 200 - 8
    assert result.gpu_hours_spent == pytest.approx(14 + 34 + 4)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"budget": 0.0}, "budget 0.0: it must be a positive number"),
        ({"target": math.nan}, "target nan: it must be a positive number"),
        ({"workers": 0}, "workers 0: it must be a positive number"),
        ({"recorded": Recorded((run(hours=[0]),))}, "nothing to play over"),
    ],
)
def test_what_cannot_be_played_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        played(open_policy("full"), **given)


@pytest.mark.parametrize("policy", ["rlplan", "asha", "median"])
def test_pilots_that_pay_half_and_are_compared_at_the_double_are_decided_on_alike(policy: str) -> None:
    """What pays counts a trial's own GPU-hours, what compares those of the final run: nothing mixes them up."""
    seen = []
    for own in (1.0, 0.5):
        pilots = {
            each: PilotTerms(0.2 * own, 0.5 * own, 60, 15, 500, compared_per_gpu_hour=1 / own)
            for each in GRID.configurations
        }
        pool = Pool()
        watched = Watched(open_policy(policy, search=None, pool=pool))
        result = play(
            GRID,
            watched,
            budget=90.0 * own,
            target=LENGTH,
            seed=1,
            workers=3,
            chooser=open_chooser(policy, pool),
            trace=False,
            pilots=pilots,
            idle_gpu_hours=2.0 * own,
        )
        steps = [
            (action.trial, action.to_step)
            for _, actions in watched.decisions
            for action in actions
            if isinstance(action, Advance)
        ]
        seen.append((result.chosen, result.gpu_hours_spent / own, steps))
    assert seen[0] == seen[1]
    assert seen[0][2]
