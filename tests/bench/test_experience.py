import numpy as np
import pytest

from bench.deciding.pairs import BY_NAME, NEW_PAIRS, PAIRS, Pair, learnt, table_of
from bench.deciding.pairs import names as names_of
from bench.deciding.tables import NEW, names, table
from bench.experience import BOTH, MIRRORED, PARTIAL, RELATED, WIDER, WITHOUT, less_sure, mirrored, played, sources_of
from planner.experience.extracting import experience_of_runs
from tests.planner.replaying.tables import grid


def test_every_pair_is_of_tables_that_are_there() -> None:
    assert {name for pairs in PAIRS.values() for pair in pairs for name in (pair.source, pair.target)} <= set(names())


def test_a_pair_is_named_for_both_and_played_on_the_second() -> None:
    found = names_of(["pairs", "allocbench/sum-easy@1"])
    assert found[:-1] == [pair.name for pair in PAIRS["recorded"]]
    assert found[-1] == "allocbench/sum-easy@1"
    first = BY_NAME["recorded/sum-easy@1>sum-hard@0.5"]
    assert table_of(first.name, 0)[0] is table("allocbench/sum-hard@0.5", 0)[0]
    assert names_of([first.name]) == [first.name]
    assert {target for _, target in NEW_PAIRS} <= set(NEW)
    assert {pair.target for pair in PAIRS["new"]} <= set(names("new-tasks"))


def test_what_a_sweep_has_seen_says_less_than_the_complete_table() -> None:
    pair = Pair("drawn", "simulated/short-target", "simulated/short-target")
    (seen,) = sources_of(pair, 0, "partial-10")
    complete = learnt(pair.source, 0)
    assert seen.curves < complete.curves
    assert seen.target_gpu_hours == pytest.approx(table(pair.source, 0)[1])
    assert np.linalg.slogdet(seen.covariance)[1] > np.linalg.slogdet(complete.covariance)[1]
    assert PARTIAL["partial-10"] == 0.10


def test_a_source_that_is_less_sure_says_the_same_with_a_larger_variance() -> None:
    source = experience_of_runs("a", grid(), {})
    vague = less_sure(source)
    before = np.diag(source.prior_sd**-2.0)
    told, left = (np.linalg.inv(each.covariance) - before for each in (source, vague))
    assert left == pytest.approx(told / WIDER, abs=1e-6 * np.abs(told).max())
    assert np.linalg.slogdet(vague.covariance)[1] > np.linalg.slogdet(source.covariance)[1]


def test_a_mirror_image_differs_in_slopes_alone_and_is_undone_by_another() -> None:
    source = experience_of_runs("a", grid(), {})
    turned = mirrored(source)
    slopes = [term.of in (("n",), ("B",)) for term in source.terms]
    assert turned.mean[slopes] == pytest.approx(-source.mean[slopes])
    assert (turned.mean[np.logical_not(slopes)] == source.mean[np.logical_not(slopes)]).all()
    assert (mirrored(turned).covariance == source.covariance).all()


def test_every_mode_is_played_at_every_budget_and_none_weighs_all_without_a_source() -> None:
    modes = (WITHOUT, RELATED, MIRRORED, BOTH)
    found = played((Pair("drawn", "simulated/short-target", "simulated/short-target"), 0, modes, (0.02, 0.05)))
    assert [(one.mode, one.share) for one in found] == [(mode, share) for mode in modes for share in (0.02, 0.05)]
    assert {one.weight_none for one in found if one.mode == WITHOUT} == {1.0}
    assert all(one.weight_none < 1 for one in found if one.mode != WITHOUT)
