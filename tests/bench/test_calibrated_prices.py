"""Ten steps of one run, and what another run of its set-up then costs."""

import math
from statistics import median

from bench.calibrated_prices import SAME, pairs
from bench.fit_prices import ROWS


def test_with_lengths_published_ten_steps_meet_the_bar() -> None:
    mine = [each for each in pairs(ROWS) if each.lengths_known and each.kind != SAME]
    misses = [abs(each.miss(each.after)) for each in mine]
    inside = [abs(each.miss(each.after)) <= 1.645 * each.after.log_sd for each in mine]
    ordered = [each.ordered for each in mine if each.ordered is not None]
    assert len(mine) > 20
    assert math.exp(median(misses)) <= 1.1
    assert sum(inside) / len(inside) >= 0.85
    assert sum(ordered) / len(ordered) >= 0.75
