"""The first row is tried at another learning rate too, where nobody gave one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.config import build_request, flag_layer, resolve
from planner.prior.laws import Circumstances, Run
from planner.prior.plan_prior import Priced, at_rate, prior_of_plan
from planner.proposals import Candidate, Proposal, propose
from planner.proposals.request import TRIED_RATES, Request
from planner.rules import PilotRules
from tests.planner.proposals.requests import request

AUTO = PilotRules()


def tried(proposal: Proposal) -> list[Candidate]:
    return [each for each in proposal.candidates if each.axes]


@pytest.mark.parametrize(
    ("given", "rates"),
    [
        ({}, TRIED_RATES),
        ({"cost.lora_rank": ("--lora-rank", 16)}, TRIED_RATES),
        ({"recipe.learning_rate": ("--learning-rate", 2e-6)}, ()),
        ({"axes.learning_rates": ("--learning-rates", [1.0])}, ()),
        ({"axes.recipes": ("--recipes", ["grpo", "dapo"])}, ()),
    ],
)
def test_the_default_plan_tries_other_rates_and_a_given_rate_stays(
    given: dict[str, tuple[str, Any]], rates: tuple[float, ...]
) -> None:
    layer = flag_layer({"budget.gpu_hours": ("--budget", 5000.0), **given})
    assert build_request(resolve(layer)).other_rates == rates


def test_the_other_rate_is_a_pilot_of_the_first_row_at_the_same_price() -> None:
    asked = replace(request(20_000.0, pilots=AUTO), other_rates=(3.0,))
    plan = propose(asked)
    first, (other,) = plan.candidates[0], tried(plan)
    assert (first.axes, other.axes) == ((), (("learning_rate", 3.0),))
    assert (other.cell.key, other.cell.cost, other.pilot.steps) == (first.cell.key, first.cell.cost, first.pilot.steps)
    assert other.learning_rate == pytest.approx(3 * first.learning_rate)
    assert first.cell.expected > other.cell.expected > first.cell.base
    without = propose(replace(asked, other_rates=()))
    assert [each.cell for each in without.candidates[:1]] == [first.cell]


@pytest.mark.parametrize(
    "asked", [replace(request(5000.0, pilots=PilotRules(fraction=0.0)), other_rates=(3.0,)), request(5000.0)]
)
def test_a_plan_without_pilots_has_no_rows_of_other_rates(asked: Request) -> None:
    assert tried(propose(asked)) == []


def test_a_sweep_is_told_what_another_rate_is_expected_to_keep() -> None:
    first = propose(request(5000.0, pilots=AUTO)).candidates[0].cell
    run = Run.of(first.key, first.signal_fraction, first.variant.traits, Circumstances.of(first.variant.workload))
    at = [first.configuration._replace(axes=axes) for axes in ((), (("learning_rate", 3.0),))]
    told = prior_of_plan([Priced(each, run, first.cost.gpu_hours_per_step) for each in at], 4000.0)
    assert told is not None
    rule, other = (np.array(told.weights) @ np.array(told.gains[each]) for each in at)
    kept = other / rule
    assert kept[-1] == pytest.approx(0.7, abs=0.1)
    assert kept[0] > kept[-1]  # early on it may learn faster, and a collapse is still to come


def test_the_rule_s_own_rate_changes_nothing_and_far_too_high_a_one_collapses() -> None:
    scores = np.linspace(0.4, 0.8, 512, dtype=np.float32)
    np.testing.assert_allclose(at_rate(scores, 0.4, 1.0), scores, atol=1e-6)
    np.testing.assert_allclose(at_rate(scores, 0.4, 1000.0), 0.4)
    assert 0.4 < at_rate(scores, 0.4, 0.1).mean() < scores.mean()
