from dataclasses import replace

import numpy as np
import pytest

from planner.belief.draws import JointDraws
from planner.belief.model import JointFit
from planner.belief.pool import Pool
from planner.policy.actions import Action, Advance, Propose, Prune, Stop
from planner.policy.informed import InformedPolicy
from planner.view import Cell, View
from tests.planner.belief.sweeps import Curve, along, open_cell, smooth
from tests.planner.policy.test_policies import check_affordable, check_legal
from tests.planner.policy.test_value import CELLS as SOME_CELLS
from tests.planner.policy.test_value import normal
from tests.planner.policy.views import CELLS, trial, view

GOOD, FAIR, POOR = (Curve(0.2, top, 0.08, 1.5) for top in (0.85, 0.75, 0.25))
LINE: tuple[Cell, ...] = ((8, 16), (8, 32), (8, 64), (8, 128), (8, 256))
DISTANT = Curve(0.1, 0.9, 0.3, 1.5)


def decided(seen: View) -> list[Action]:
    return list(InformedPolicy().decide(seen))


def hopeless(second: Curve = FAIR) -> View:
    curves = (GOOD, second, POOR, POOR, POOR)
    return view([along(n, cell, curve, 50) for n, (cell, curve) in enumerate(zip(LINE, curves, strict=True), start=1)])


def test_a_fit_that_did_not_converge_gives_nothing_up_and_stands_in_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(JointFit, "unconverged", 0.4)
    actions = decided(hopeless(replace(GOOD, asymptote=0.84)))
    bought = next(action for action in actions if isinstance(action, Advance))
    assert not any(isinstance(action, Prune) for action in actions)
    assert bought.why.figures["unconverged"] == 0.4
    assert bought.why.reason.endswith("40 % of the fit had not converged")


def test_what_is_hopeless_is_pruned_and_the_two_best_are_not() -> None:
    seen = hopeless()
    pruned = {action.trial: action for action in decided(seen) if isinstance(action, Prune)}
    assert set(pruned) == {3, 4, 5}
    why = pruned[3].why
    assert "within 0.02 of the best" in why.reason
    assert why.figures["probability_near_best"] < why.figures["limit"]
    assert why.alternatives


def test_a_late_starter_that_is_behind_is_not_pruned_while_its_end_is_open() -> None:
    late = Curve(0.2, 0.95, 0.45, 2.5)
    early = Curve(0.2, 0.6, 0.06, 1.5)
    runs = [along(1, (4, 16), early, 30), along(2, (16, 16), early, 30), along(3, (64, 256), late, 15)]
    seen = view(runs)
    assert late.at(0.15) < early.at(0.15) - 0.1
    assert late.at(1.0) > early.at(1.0) + 0.1
    assert not any(isinstance(action, Prune) and action.trial == 3 for action in decided(seen))


def test_the_money_goes_to_the_final_run_only_where_that_is_so() -> None:
    runs = [along(1, (4, 16), DISTANT, 90), along(2, (64, 256), POOR, 90), trial(3, cell=(16, 64))]
    seen = view(runs, left=20.0)
    (stop,) = [each for each in decided(replace(seen, rest_to_final=True)) if not isinstance(each, Prune)]
    assert isinstance(stop, Stop)
    assert " go to the final run: they raise its score by " in stop.why.reason
    assert stop.why.figures["final_gain_per_gpu_hour"] > stop.why.figures["gain_per_gpu_hour"]
    assert stop.why.figures["gpu_hours_left"] == 20.0
    assert not any("final run" in each.why.reason for each in decided(seen))


def test_pilots_go_on_while_they_tell_more_than_the_final_run_gains() -> None:
    flat = Curve(0.3, 0.7, 0.005, 2.0)
    runs = [along(1, (4, 16), flat, 10), *(trial(n, cell=cell) for n, cell in enumerate(CELLS[5:12], start=2))]
    actions = decided(replace(view(runs, left=300.0), rest_to_final=True))
    assert any(isinstance(action, Advance) for action in actions)


@pytest.mark.parametrize("free", [1, 2, 4])
def test_the_first_pilots_are_spread_over_configurations(free: int) -> None:
    seen = view([trial(n, cell=cell) for n, cell in enumerate(CELLS * 2, start=1)], free=free)
    actions = decided(seen)
    check_legal(seen, actions)
    check_affordable(seen, actions)
    assert len(actions) == free
    chosen = {seen.trials[each.trial].cell for each in actions if isinstance(each, Advance)}
    assert len(chosen) == free
    if free == 1:
        assert chosen == {(16, 64)}


def test_workers_are_given_different_configurations() -> None:
    truth = smooth(2)
    some = [along(n, cell, truth[cell], 10) for n, cell in enumerate(CELLS[:3], start=1)]
    seeds = [trial(10 + n, cell=cell, seed=n % 2) for n, cell in enumerate(CELLS[5:15] * 2)]
    seen = view([*some, *seeds], free=4)
    advanced = [each for each in decided(seen) if isinstance(each, Advance)]
    assert len(advanced) == 4
    assert len({seen.trials[each.trial].configuration for each in advanced}) >= 3
    why = advanced[0].why
    assert {"expected_gain", "gain_per_gpu_hour", "probability_best", "price_gpu_hours"} <= set(why.figures)
    assert "should improve the final choice by" in why.reason
    assert 1 <= len(why.alternatives) <= 5


class Known(Pool):
    """Believes the same of the first three cells whatever was seen: all are level, and of the first nothing is open."""

    def joint_draws(self, view: View, draws: int) -> JointDraws:
        return normal(np.full(3, 0.5), np.diag([4e-9, 0.01, 0.01]), 0.004)


def test_a_cheap_segment_that_tells_nothing_hides_no_dearer_one_that_tells_something() -> None:
    nearly_free, *others = (along(n, cell, FAIR, 20) for n, cell in enumerate(SOME_CELLS[:3], start=1))
    nearly_free = replace(nearly_free, gpu_hours_per_step=1e-12, start_up_gpu_hours=0.0)
    (bought,) = InformedPolicy(pool=Known()).decide(view([nearly_free, *others], free=1))
    assert isinstance(bought, Advance)
    assert bought.trial != nearly_free.trial


@pytest.mark.parametrize("seed", range(4))
def test_a_second_worker_is_not_given_what_the_first_will_tell(seed: int) -> None:
    pair = ((4, 16), (64, 256))
    runs = [along(n, pair[n // 3], GOOD, 6, seed=seed) for n in range(6)]
    seen = view(runs, left=300.0, free=2)
    chosen = [seen.trials[each.trial].cell for each in decided(seen) if isinstance(each, Advance)]
    assert sorted(chosen) == sorted(pair)


def proposing(proposed: int, planned: int = 5) -> View:
    """Return a sweep whose trials are at their end, with open cells beyond where scores rise towards."""
    tops = (0.4, 0.5, 0.6, 0.65, 0.7)
    runs = [
        replace(along(n, cell, Curve(0.2, tops[n - 1], 0.08, 1.5), 100), most_steps=100)
        for n, cell in enumerate(LINE[:planned], start=1)
    ]
    runs = [replace(one, proposed=one.trial <= proposed) for one in runs]
    return view(runs, open_cells=[open_cell((8, 512)), open_cell((8, 1024)), open_cell((16, 512))], left=200.0)


def test_an_open_cell_that_promises_more_is_proposed() -> None:
    actions = decided(proposing(0))
    (asked,) = [each for each in actions if isinstance(each, Propose)]
    assert asked.prompts_per_batch >= 512
    assert "has no trial yet" in asked.why.reason
    assert asked.why.figures["expected_gain"] > 0


def test_no_more_is_proposed_than_there_is_room_for() -> None:
    assert not any(isinstance(each, Propose) for each in decided(proposing(2)))


TOLD = [replace(along(n, LINE[n], curve, 60), most_steps=100) for n, curve in ((1, GOOD), (3, POOR))]
UNTOLD = [along(1, LINE[0], GOOD, 6), along(2, LINE[4], GOOD, 6)]


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (view(TOLD), "the choice is settled: no segment"),
        (
            view([replace(along(k + 1, LINE[k], GOOD, 40), most_steps=40) for k in (0, 4)]),
            "nothing is left to train: every trial is at its last step",
        ),
        (
            view([replace(each, start_up_gpu_hours=4.0, gpu_hours_per_step=0.1) for each in UNTOLD], left=6.0),
            "too little is left: the cheapest useful segment, n = ",
        ),
        (view(UNTOLD, left=0.0), "the money is out: 0 GPU-hours are left, and one more step of the cheapest trial"),
    ],
)
def test_it_says_why_it_stops(seen: View, said: str) -> None:
    reasons = [each.why.reason for each in decided(seen) if isinstance(each, Stop)]
    assert len(reasons) == 1
    assert reasons[0].startswith(said)
