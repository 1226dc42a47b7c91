from dataclasses import replace

import numpy as np
import pytest

from planner.experience.experience import Experience, is_transferred, widened
from planner.experience.teaching import ALL, TRUSTED, TransferPriors, between
from planner.pooling.features import TOP, CoefficientTerm, NumericAxis, features
from planner.view import Configuration
from tests.planner.experience.makers import learnt
from tests.planner.pooling.sweeps import TARGET
from tests.planner.sweeping.views import CELLS

SMOOTH = features([Configuration(*cell) for cell in CELLS])
CARRIED = np.array([is_transferred(term) for term in SMOOTH.terms])
SOURCE = learnt(1)


def test_a_second_source_that_says_the_same_narrows() -> None:
    one = TransferPriors((SOURCE,), {}).priors(SMOOTH, TARGET)[0]
    both = TransferPriors((SOURCE, replace(SOURCE, name="again")), {}).priors(SMOOTH, TARGET)
    assert [each.name for each in both] == ["earlier", "again", ALL]
    narrower = np.diag(both[2].covariance)[CARRIED] / np.diag(one.covariance)[CARRIED]
    assert (narrower < 1).all()
    assert narrower.min() > 0.4


def test_weights_leave_room_for_none_and_more_of_it_the_less_alike() -> None:
    like, unlike = learnt(1, task="sums", model="a"), learnt(2, task="code", model="b")
    about = {"task": "sums", "model": "a"}
    (alone,) = TransferPriors((like,), about).priors(SMOOTH, TARGET)
    (far,) = TransferPriors((unlike,), about).priors(SMOOTH, TARGET)
    (scale,) = TransferPriors((like,), about).priors(SMOOTH, 1e4 * TARGET)
    assert alone.weight == pytest.approx(TRUSTED)
    assert far.weight < 0.6 * alone.weight
    assert scale.weight < 0.3 * alone.weight
    among = TransferPriors((like, unlike), about).priors(SMOOTH, TARGET)
    assert sum(each.weight for each in among) == pytest.approx(TRUSTED)
    assert among[0].weight > among[1].weight


def test_a_surface_is_the_same_in_another_frame() -> None:
    rng = np.random.default_rng(0)
    ours = (NumericAxis("n", 1.0, 7.0, True), NumericAxis("B", 2.0, 6.0, True))
    theirs = (NumericAxis("n", 2.0, 5.0, True), NumericAxis("B", 0.0, 9.0, True))
    terms = [CoefficientTerm(TOP, of) for of in (("n",), ("n", "n"), ("B",), ("B", "B"), ("B", "n"))]
    there = rng.normal(size=5)
    here = between(theirs, terms, ours, TOP) @ there

    def at(lines: tuple[NumericAxis, ...], weights: np.ndarray, n: float, B: float) -> float:
        u, v = (2 * (x - line.low) / (line.high - line.low) - 1 for x, line in zip((n, B), lines, strict=True))
        return float(weights @ np.array([u, u * u - 1 / 3, v, v * v - 1 / 3, u * v]))

    places = rng.uniform(0, 9, (6, 2))
    apart = [at(theirs, there, *place) - at(ours, here, *place) for place in places]
    assert apart == pytest.approx([apart[0]] * 6)  # but for the level


def test_axes_that_only_one_of_both_has_are_left_alone() -> None:
    more = features([Configuration(n, B, (("lr", factor),)) for n, B in CELLS for factor in (0.5, 1.0, 2.0)])
    (prior,) = TransferPriors((SOURCE,), {}).priors(more, TARGET)
    own = np.array(["lr" in term.of for term in more.terms])
    assert own.any()
    assert (prior.mean[own] == more.mean[own]).all()
    assert (np.diag(prior.covariance)[own] == more.sd[own] ** 2).all()
    assert (
        TransferPriors((SOURCE,), {}).priors(features([Configuration(8, 16, (("lr", x),)) for x in (1.0, 2.0)]), 1.0)
        == ()
    )


def test_what_curves_do_not_say_is_not_carried() -> None:
    silent = Experience(
        **{
            **{name: getattr(SOURCE, name) for name in SOURCE.__dataclass_fields__},
            "mean": SOURCE.prior_mean,
            "covariance": np.diag(SOURCE.prior_sd**2),
        }
    )
    (prior,) = TransferPriors((silent,), {}).priors(SMOOTH, TARGET)
    assert prior.mean == pytest.approx(SMOOTH.mean)
    assert prior.covariance == pytest.approx(np.diag(np.where(CARRIED, widened(SMOOTH), SMOOTH.sd) ** 2))
