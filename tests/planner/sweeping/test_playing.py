import numpy as np
import pytest

from planner.pooling.pool import Pool
from planner.replaying.choosing import HighestExpected
from planner.sweeping.actions import Advance, Propose, Prune, Stop
from planner.sweeping.policies import POLICIES, open_policy
from planner.trials import TrialState
from tests.planner.sweeping.playing import World, surface, unrelated
from tests.planner.sweeping.views import CELLS

PLANNED, BUDGET = 12, 122.0  # that many pilots of 20 steps cost so much


def played(policy: str, seed: int, *, budget: float = BUDGET, failing: float = 0.0, related: bool = False) -> World:
    cells = [CELLS[i] for i in np.random.default_rng(seed).permutation(len(CELLS))]
    truth = (surface if related else unrelated)(seed, cells)
    world = World(truth, PLANNED, budget, seed=seed, failing=failing)
    world.play(open_policy(policy))
    return world


def regret(world: World) -> float:
    chosen = HighestExpected(Pool())(world.view())
    assert chosen is not None
    return world.best - world.score((chosen.rollouts_per_prompt, chosen.prompts_per_batch))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("budget", "failing"), [(4.0, 0.0), (40.0, 0.2), (BUDGET, 0.0), (400.0, 0.1)])
def test_every_policy_comes_to_an_end_within_its_budget(policy: str, budget: float, failing: float) -> None:
    world = played(policy, 1, budget=budget, failing=failing)
    assert world.spent <= budget
    assert not world.running
    # What is left would not pay for a step, or there is nothing that the policy would train.
    final = list(open_policy(policy).decide(world.view()))
    assert not any(isinstance(action, Advance | Propose) for action in final)
    assert any(isinstance(action, Stop) for action in final)


def test_with_money_for_its_plan_every_trial_has_a_curve() -> None:
    for policy in ("full", "median", "asha"):
        assert all(trial.scores for trial in played(policy, 2).trials.values())


def test_the_full_grid_trains_exactly_its_pilots() -> None:
    world = played("full", 3, budget=400.0)
    assert {trial.step for trial in world.trials.values()} == {20}
    assert {trial.state for trial in world.trials.values()} == {TrialState.FINISHED}


def test_proposed_trials_are_at_most_half_of_the_plan() -> None:
    world = played("rlplan", 4, budget=400.0)
    assert 0 < sum(trial.proposed for trial in world.trials.values()) <= PLANNED / 2


def test_a_driver_that_starts_again_decides_the_same() -> None:
    world = played("rlplan", 5)
    for seen, actions in world.decisions[::7]:
        assert list(open_policy("rlplan").decide(seen)) == actions


def test_pruned_trials_were_worse_than_the_chosen_one() -> None:
    lost = 0
    for seed in range(6):
        world = played("rlplan", 100 + seed)
        pruned = {action.trial for _, actions in world.decisions for action in actions if isinstance(action, Prune)}
        lost += sum(world.score(world.trials[number].cell) == world.best for number in pruned)
    assert lost <= 1


def against_random(related: bool) -> tuple[float, float]:
    """Return how much higher the regret is than random search's, and the standard error of that, pair by pair."""
    ours, random = (
        np.array([regret(played(policy, seed, related=related)) for seed in range(20)])
        for policy in ("rlplan", "random")
    )
    return float((ours - random).mean()), float((ours - random).std(ddof=1) / np.sqrt(len(ours)))


def test_where_neighbours_tell_of_each_other_the_choice_is_better_than_that_of_random_search() -> None:
    assert against_random(related=True)[0] < -0.01


def test_where_they_tell_nothing_it_is_not_worse_beyond_noise() -> None:
    difference, error = against_random(related=False)
    assert difference < 2 * error
