import numpy as np
import pytest

from planner.experience.teaching import TransferPriors
from planner.pooling.draws import JointDraws
from planner.pooling.pool import Pool, joint_of
from planner.view import View
from tests.planner.experience.makers import against, learnt
from tests.planner.pooling.sweeps import smooth, sweep
from tests.planner.sweeping.views import CELLS

FEW = dict.fromkeys(((4, 16), (64, 16), (4, 256), (64, 256)), 40)


def view(seed: int = 0) -> View:
    return sweep(smooth(seed), FEW)


def same(one: JointDraws, other: JointDraws) -> bool:
    return bool((one.local == other.local).all() and (one.departed == other.departed).all())


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_a_source_of_the_same_surface_is_believed_and_its_mirror_image_is_not(seed: int) -> None:
    source = learnt(seed)
    pool = Pool(TransferPriors((source, against(source)), {}))
    pool.joint_draws(sweep(smooth(seed), dict.fromkeys(CELLS[::2], 80)), 200)
    weights = pool.source_weights()
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["earlier"] > 3 * weights["mirrored"]
    assert weights["mirrored"] < 0.1


def test_a_source_tells_of_cells_that_no_curve_does() -> None:
    missed: dict[str, list[float]] = {"with": [], "without": []}
    for seed in range(6):
        truth, short = smooth(seed), sweep(smooth(seed), dict.fromkeys(((16, 64), (32, 64)), 30))
        for name, worlds in (
            ("without", joint_of(short, 300)),
            ("with", Pool(TransferPriors((learnt(seed),), {})).joint_draws(short, 300)),
        ):
            expected, real = worlds.at(1.0).mean(axis=0), [truth[each[:2]].at(1.0) for each in worlds.configurations]
            missed[name].append(float(np.std(expected - np.array(real))))
    assert np.mean(missed["with"]) < 0.75 * np.mean(missed["without"])


def test_equal_teachers_give_bit_equal_worlds_and_none_has_no_weights() -> None:
    one, other = (Pool(TransferPriors((learnt(2),), {})) for _ in range(2))
    one.joint_draws(view(5), 200)  # what was fitted before leaves no trace
    assert same(one.joint_draws(view(), 200), other.joint_draws(view(), 200))
    assert Pool().source_weights() == {}
