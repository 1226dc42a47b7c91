import numpy as np
import pytest

from bench.fit_prices import TARGET, examples, left_out, with_widths, written
from budgets import catalogue
from budgets.coefficients import CONSTANTS, PRIOR_LOG_SD, prior
from budgets.work import Driver

EXAMPLES = examples()


def test_the_catalogue_is_what_the_fit_of_the_shipped_rows_writes() -> None:
    """To the second decimal: solvers end a little differently from machine to machine."""
    fresh, shipped = (text.split() for text in (written(with_widths(EXAMPLES)), TARGET.read_text(encoding="utf-8")))
    assert len(fresh) == len(shipped)
    for ours, theirs in zip(fresh, shipped, strict=True):
        try:
            assert float(ours) == pytest.approx(float(theirs), abs=0.01)
        except ValueError:
            assert ours == theirs


def test_published_steps_are_met_without_their_set_up_and_without_their_trainer() -> None:
    setups = [each for each in left_out(EXAMPLES, lambda run: run.setup) if each.trainer_known]
    trainers = left_out(EXAMPLES, lambda run: run.trainer)
    for rows, typical, most in ((setups, 1.25, 1.6), (trainers, 1.35, 1.9)):
        misses = np.exp(np.abs([each.log_miss for each in rows]))
        assert np.median(misses) <= typical
        assert np.quantile(misses, 0.9) <= most


def test_the_prior_is_nominal_for_one_process_and_fitted_elsewhere() -> None:
    model = catalogue.model("qwen3-8b")
    alone, on_gpus = prior(catalogue.gpu("cpu"), model), prior(catalogue.gpu("h100"), model)
    assert set(alone.log_mean.values()) == {0.0}
    assert {driver for drivers in CONSTANTS.values() for driver in drivers} | {Driver.REWARD} == set(Driver)
    assert on_gpus.log_covariance[Driver.REWARD, Driver.REWARD] == PRIOR_LOG_SD[Driver.REWARD] ** 2
    assert on_gpus.unmodelled_log_sd < alone.unmodelled_log_sd


def test_what_was_seen_is_known_better() -> None:
    h100, seen, new = catalogue.gpu("h100"), catalogue.model("llama-3.1-8b"), catalogue.model("gemma-3-4b")
    widths = [
        prior(h100, seen, "nemo-rl").unmodelled_log_sd,
        prior(h100, new, "nemo-rl").unmodelled_log_sd,
        prior(h100, new).unmodelled_log_sd,
    ]
    assert widths == sorted(widths)
    assert prior(catalogue.gpu("l20"), seen, "nemo-rl").unmodelled_log_sd == widths[1]
