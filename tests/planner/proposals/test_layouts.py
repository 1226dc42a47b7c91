"""How many GPUs a pilot gets."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError
from budgets.memory import fewest_gpus
from planner.proposals import propose
from planner.proposals.grid import price_cells
from planner.proposals.layouts import legal_layouts, with_layout
from planner.rules import PilotRules
from tests.planner.proposals.requests import request


@pytest.mark.parametrize(
    ("wanted", "gpus"),
    [
        ({}, 4),  # sixteen side by side, on half a node each
        ({"gpus": 1, "model": "qwen3-1.7b"}, 1),
        ({"gpus_per_trial": 4}, 4),
        ({"model": "qwen3-32b", "response_tokens": 16_384, "difficulty": "hard", "recipe": "hard"}, 16),
        ({"recipe": "scalerl"}, 8),  # one node, of which half trains: so is the final run, at nearly its best price
        ({"pilots": PilotRules(fraction=0.0)}, 64),
        ({"pilots": PilotRules(gpus=32)}, 32),
    ],
)
def test_a_layout_is_near_the_best_price_and_legal(wanted: dict[str, Any], gpus: int) -> None:
    assert with_layout(request(**wanted)).pilots.gpus == gpus


@pytest.mark.parametrize(
    ("given", "wanted", "nearest"),
    [
        (1, {}, "4"),
        (3, {}, "4"),
        (12, {}, "16"),
        (80, {}, "64"),
        (24, {"recipe": "scalerl"}, "32"),
        (16, {"gpus_per_trial": 8}, "8"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_with_the_nearest_that_can(
    given: int, wanted: dict[str, Any], nearest: str
) -> None:
    with pytest.raises(InputError, match=rf"--pilot-gpus {given}: .* nearest that will do is {nearest}$"):
        propose(request(pilots=PilotRules(gpus=given), **wanted))


@settings(max_examples=12, deadline=None)
@given(
    model=st.sampled_from(["qwen3-1.7b", "qwen3-8b", "qwen3-32b"]),
    recipe=st.sampled_from(["easy", "hard", "scalerl"]),
    gpus=st.sampled_from([8, 16, 24, 64]),
    per_node=st.sampled_from([4, 8]),
)
def test_pilots_fit_keep_the_ratio_and_leave_no_places_over(model: str, recipe: str, gpus: int, per_node: int) -> None:
    asked = request(model=model, recipe=recipe, gpus=gpus)
    gpu = replace(asked.hardware.gpu, gpus_per_node=per_node)
    asked = replace(asked, hardware=replace(asked.hardware, gpu=gpu))
    fewest = fewest_gpus(asked.workload, asked.traits, gpu)
    if fewest is None or fewest > gpus:
        return
    decided = with_layout(asked)
    own = decided.pilot_hardware.gpus_per_trial
    assert own in legal_layouts(asked)
    assert fewest <= own
    assert gpus % own == 0
    assert own == gpus or per_node % own == 0 or own % per_node == 0
    for cell in price_cells(decided):
        pilot, final = cell.pilot_cost.placement, cell.cost.placement
        assert (pilot.gpus, final.gpus) == (own, gpus)
        assert pilot.generator_gpus * final.trainer_gpus == pilot.trainer_gpus * final.generator_gpus
