import pytest

from bench.deciding.tables import table
from bench.openings import SIGNAL, SPREAD, Opened, order_of, played, price_of_signal, settings
from planner.pooling.pool import Pool
from planner.replaying.game import Game
from planner.sweeping.actions import Advance
from planner.sweeping.informed import InformedPolicy
from planner.view import Configuration
from tests.planner.replaying.tables import grid

TABLE = "simulated/short-target"


def test_a_signal_is_cheapest_where_groups_are_as_large_as_they_must_be_and_batches_small() -> None:
    small, large, wide = (Configuration(n, B, ()) for n, B in ((2, 16), (64, 16), (2, 64)))
    assert price_of_signal(small, 0.5) < price_of_signal(large, 0.5)
    assert price_of_signal(wide, 0.5) == pytest.approx(4 * price_of_signal(small, 0.5))
    assert price_of_signal(small, 0.01) / price_of_signal(large, 0.01) > price_of_signal(small, 0.5) / price_of_signal(
        large, 0.5
    )


def test_an_order_has_every_cell_once_and_a_table_of_no_task_has_no_ranks() -> None:
    recorded, _ = table(TABLE, 0)
    for opening in (SPREAD, SIGNAL):
        order = order_of(opening, TABLE, recorded, 0)
        assert order is not None
        assert sorted(order) == sorted(recorded.configurations)
    assert order_of("ranked", TABLE, recorded, 0) is None


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_pilots_are_of_the_first_cells(workers: int) -> None:
    recorded = grid()
    order = sorted(recorded.configurations, reverse=True)
    game = Game(recorded, budget=200.0, target=recorded.length, seed=0, workers=workers)
    policy, started = Opened(order, 4, Pool()), list[Configuration]()
    for view in game.views(policy):
        began = [trial for trial in view.trials.values() if trial.state == "running" or trial.step > 0]
        started += [trial.configuration for trial in began if trial.configuration not in started]
        if len(started) >= 4:
            break
    assert set(started[:4]) == set(order[:4])


def test_an_opening_of_one_cell_of_its_own_order_is_the_policy_itself() -> None:
    recorded, target = table(TABLE, 1)
    order = order_of(SPREAD, TABLE, recorded, 1)
    assert order is not None
    view = Game(recorded, budget=1.0, target=target, seed=1, workers=1).view()
    (ours,), (theirs,) = Opened(order, 1, Pool()).decide(view), InformedPolicy().decide(view)
    assert isinstance(ours, Advance)
    assert isinstance(theirs, Advance)
    assert (ours.trial, ours.to_step) == (theirs.trial, theirs.to_step)


def test_every_opening_is_played_with_every_budget_and_as_many_cells_as_workers() -> None:
    assert settings((1, 8), (1, 4)) == [(1, 1), (1, 4), (8, 8)]
    found = played((TABLE, 0, (1,), (1,), (0.02, 0.05)))
    assert [(one.opening, one.share) for one in found] == [(o, s) for o in (SPREAD, SIGNAL) for s in (0.02, 0.05)]
    assert all(one.regret >= 0 for one in found)
