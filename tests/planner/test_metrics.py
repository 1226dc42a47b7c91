import itertools
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import ConfigError
from planner.config import Layer, resolve
from planner.metrics import Metric, expected_at, further_scores, mean_over, sizes

samples = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(samples, st.data())
def test_the_estimate_is_the_mean_over_all_subsets(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    subsets = list(itertools.combinations(values, k))
    assert expected_at("best", values, k) == pytest.approx(statistics.fmean(map(max, subsets)))
    assert expected_at("worst", values, k) == pytest.approx(statistics.fmean(map(min, subsets)))


def test_scores_over_problems_have_standard_errors() -> None:
    groups = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]
    found = further_scores(groups)
    assert found == {"best@2": mean_over([0, 1, 1, 1]), "worst@2": mean_over([0, 0, 1, 0])}
    assert found["best@2"] == (0.75, pytest.approx(statistics.stdev([0, 1, 1, 1]) / 2))
    assert mean_over([0.3]) == (0.3, 0.0)


@pytest.mark.parametrize(
    ("given", "kept"), [(1, ()), (2, (2,)), (3, (2, 3)), (4, (2, 4)), (6, (2, 4, 6)), (16, (2, 4, 8, 16))]
)
def test_which_k_are_kept(given: int, kept: tuple[int, ...]) -> None:
    assert sizes(given) == kept
    names = [f"best@{k}" for k in kept] + [f"worst@{k}" for k in kept]
    assert names == list(further_scores([[0.5] * given]))


def test_a_metric_picks_its_score() -> None:
    further = {"best@4": (0.9, 0.01), "worst@4": (None, None)}
    assert Metric("mean", 4).of(0.5, 0.02, further) == (0.5, 0.02)
    assert Metric("best", 4).of(0.5, 0.02, further) == (0.9, 0.01)
    assert Metric("mean", 4).of(None, None, further) is None
    for kind, k in (("best", 2), ("worst", 4)):
        assert Metric(kind, k).of(0.5, 0.02, further) is None
    assert Metric("best", 4).of(0.5, 0.02, None) is None


def test_a_stored_sweep_says_what_it_compares_by() -> None:
    rule = {"metric": "best", "metric_k": 2, "samples": 4}
    assert Metric.of_sweep({"training": {"validation": rule}}).name == "best@2"
    assert Metric.of_sweep({"training": {"validation": {"metric": "worst", "samples": 4}}}).name == "worst@4"
    assert Metric.of_sweep({"training": {"validation": {"samples": 4}}}).name == "mean@4"
    assert Metric.of_sweep({}).kind == "mean"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metric": "best", "metric_k": 3}, "metric_k = 3 is not kept of 4 samples of each problem; these are: 2, 4"),
        ({"metric": "worst", "samples": 1}, "metric = 'worst' needs at least 2 samples of each problem"),
        ({"metric_k": 2}, "metric_k = 2 goes with the metrics best and worst; the mean is over all 4"),
        ({"metric": "median"}, "rlplan.toml: validation.metric = 'median' should be 'mean', 'best' or 'worst'"),
    ],
)
def test_the_configuration_chooses_a_metric_that_its_samples_yield(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve([Layer("rlplan.toml", {"validation": given})])
    chosen = resolve([Layer("rlplan.toml", {"validation": {"metric": "best", "metric_k": 2}})])
    assert (chosen.config.validation.metric, chosen.config.validation.metric_k) == ("best", 2)
