from dataclasses import replace

from planner.pooling.pool import joint_of
from planner.sweeping.chances import Chances
from planner.trials import TrialState
from planner.view import Configuration
from tests.planner.pooling.sweeps import along, smooth, sweep

CELLS = ((4, 16), (8, 32), (16, 64), (32, 128))
TRUTH = smooth(6, CELLS)
SEEN = sweep(TRUTH, dict.fromkeys(CELLS[:3], 30))
WORLDS = joint_of(SEEN, 300)


def test_one_seed_that_lives_keeps_its_configuration() -> None:
    twin = along(9, CELLS[0], TRUTH[CELLS[0]], 30)
    pruned = replace(SEEN.trials[1], state=TrialState.PRUNED)
    both = replace(SEEN, trials={**SEEN.trials, 1: pruned, 9: twin})
    assert Configuration(*CELLS[0]) in Chances(both, WORLDS).place
    gone = replace(both, trials={**both.trials, 9: replace(twin, state=TrialState.FAILED)})
    assert Configuration(*CELLS[0]) not in Chances(gone, WORLDS).place
