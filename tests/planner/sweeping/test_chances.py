from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy.special import ndtri

from planner.metrics import EQUIVALENCE_MARGIN
from planner.sweeping.chances import ALPHA, Chances, bar
from planner.view import Configuration
from tests.planner.sweeping.views import view

MANY = 100
SD = 0.05


@pytest.mark.parametrize(("chance", "least", "most"), [(5, 0.0, 0.01), (0.01, 0.9, 1.0)])
def test_among_many_a_few_draws_give_up_what_has_no_chance_and_nothing_else(
    chance: float, least: float, most: float
) -> None:
    limit = bar(ALPHA, MANY)
    behind = -EQUIVALENCE_MARGIN + np.sqrt(2) * SD * ndtri(chance * limit)
    given_up = []
    for seed in range(100):
        scores = np.random.default_rng(seed).normal([0.8, *[0.8 + behind] * 4], SD, (300, 5))
        configurations = tuple(Configuration(2**k, 8) for k in range(1, 6))
        joint = cast(Any, SimpleNamespace(at_target=scores, configurations=configurations))
        found = Chances(view([]), joint)
        given_up.append(found.near_at_most[1:] < limit)
    assert least <= np.mean(given_up) <= most
