import numpy as np
import pytest

from bench.deciding.tables import names
from bench.experience import BOTH, MIRRORED, PAIRS, RELATED, WITHOUT, mirrored, played
from planner.experience.extracting import experience_of_runs
from tests.planner.replaying.tables import grid


def test_every_pair_is_of_tables_that_are_there() -> None:
    assert {table for pairs in PAIRS.values() for pair in pairs for table in pair} <= set(names())


def test_a_mirror_image_differs_in_slopes_alone_and_is_undone_by_another() -> None:
    source = experience_of_runs("a", grid(), {})
    turned = mirrored(source)
    slopes = [term.of in (("n",), ("B",)) for term in source.terms]
    assert turned.mean[slopes] == pytest.approx(-source.mean[slopes])
    assert (turned.mean[np.logical_not(slopes)] == source.mean[np.logical_not(slopes)]).all()
    assert (mirrored(turned).covariance == source.covariance).all()


def test_every_mode_is_played_at_every_budget_and_none_weighs_all_without_a_source() -> None:
    modes = (WITHOUT, RELATED, MIRRORED, BOTH)
    found = played(("drawn", "simulated/short-target", "simulated/short-target", 0, modes, (0.02, 0.05)))
    assert [(one.mode, one.share) for one in found] == [(mode, share) for mode in modes for share in (0.02, 0.05)]
    assert {one.weight_none for one in found if one.mode == WITHOUT} == {1.0}
    assert all(one.weight_none < 1 for one in found if one.mode != WITHOUT)
