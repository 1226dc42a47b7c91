import numpy as np
import pytest

from bench.fit_prices import TARGET, examples, fit, left_out, widths, with_strangers, written
from bench.measured_prices import bounds_broken
from budgets import catalogue
from budgets.coefficients import CONSTANTS, PRIOR_LOG_SD, prior
from budgets.cost import Z90
from budgets.work import Driver

EXAMPLES = examples()
WIDTHS = widths(EXAMPLES)


def test_the_catalogue_is_what_the_fit_of_the_shipped_rows_writes() -> None:
    """To the second decimal: solvers end a little differently from machine to machine."""
    made = written(with_strangers(WIDTHS.widen(fit(EXAMPLES))))
    fresh, shipped = (text.split() for text in (made, TARGET.read_text(encoding="utf-8")))
    assert len(fresh) == len(shipped)
    for ours, theirs in zip(fresh, shipped, strict=True):
        try:
            assert float(ours) == pytest.approx(float(theirs), abs=0.01)
        except ValueError:
            assert ours == theirs


def test_published_steps_are_met_without_their_workload_and_without_their_trainer() -> None:
    workloads, trainers = (left_out(EXAMPLES, by) for by in (lambda each: each.workload, lambda each: each.run.trainer))
    for rows, typical, most in ((workloads, 1.2, 1.7), (trainers, 1.35, 1.9)):
        misses = np.exp(np.abs([each.log_miss for each in rows if not each.example.alone]))
        assert np.median(misses) <= typical
        assert np.quantile(misses, 0.9) <= most
        assert 0.8 <= np.mean([abs(each.log_miss) <= Z90 * each.log_sd(WIDTHS) for each in rows]) <= 0.97


def test_adapters_train_as_fast_as_all_weights() -> None:
    runs = {each.run.name: each for each in EXAMPLES if each.alone}
    pairs = [
        (runs[name.replace("-lora", "")], each)
        for name, each in runs.items()
        if "-lora" in name
        if name.replace("-lora", "") in runs
    ]
    assert len(pairs) == 13
    weights = np.ones(len(CONSTANTS) + 1)
    for full, adapted in pairs:
        measured = adapted.log_measured - full.log_measured
        assert abs(adapted.log_seconds(weights) - full.log_seconds(weights) - measured) <= np.log(1.15)


def test_prices_keep_the_bounds_of_a_public_test_suite() -> None:
    bounds, _, clearly_above = bounds_broken()
    assert clearly_above <= 0.05 * bounds


def test_the_prior_is_nominal_for_one_process_and_fitted_elsewhere() -> None:
    alone, on_gpus = prior(catalogue.gpu("cpu")), prior(catalogue.gpu("h100"))
    assert set(alone.log_mean.values()) == {0.0}
    unfitted = {Driver.REWARD, Driver.SAVING, Driver.GATHERING, Driver.OFFLOADING, Driver.TOOLS}
    assert {driver for drivers in CONSTANTS.values() for driver in drivers} | unfitted == set(Driver)
    assert all(on_gpus.log_covariance[each, each] == PRIOR_LOG_SD[each] ** 2 for each in unfitted)
    assert on_gpus.unmodelled_log_sd < alone.unmodelled_log_sd
    assert prior(catalogue.gpu("h100"), "nemo-rl").unmodelled_log_sd < on_gpus.unmodelled_log_sd
