"""What steps of other people's runs have beside products and bytes: nodes, no engine, tools, an optimizer elsewhere."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import catalogue
from budgets.execution import Execution
from budgets.generation import generate_seconds
from budgets.memory import Placement
from budgets.training import forward_seconds, sync_seconds, train_seconds
from budgets.work import Driver, StepLoad, total
from budgets.workload import RecipeTraits, Turns, Workload
from tests.budgets.workloads import workload_of

H100, A100 = catalogue.gpu("h100"), catalogue.gpu("a100-80")
LOAD = StepLoad(prompts=32, generated=256, trained=256)
LARGE = workload_of("qwen3-32b", cap=16_384, mean_share=0.35)


def run_as(**how: object) -> RecipeTraits:
    return RecipeTraits("grpo", execution=Execution(**how))  # type: ignore[arg-type]


def gathering(gpus: int, **how: object) -> float:
    return train_seconds(LARGE, H100, gpus, LOAD, run_as(**how)).get(Driver.GATHERING, 0.0)


def test_weights_that_travel_between_nodes_for_each_micro_batch_make_an_update_longer() -> None:
    one, four = (gathering(16, sharding="always", micro_batch=size) for size in (1, 4))
    assert one > 100 > four > 0  # of 16 rollouts a GPU
    assert gathering(16, sharding="always", micro_batch=1, node_link_gb_per_s=3.0) > 3.5 * one
    assert one > gathering(16, sharding="always") > four  # packed, each holds about three


@pytest.mark.parametrize(
    ("gpus", "how"),
    [
        (16, {"sharding": "never", "micro_batch": 1}),
        (8, {"sharding": "always", "micro_batch": 4}),  # within a node they come while a layer is computed
    ],
)
def test_weights_that_stay_or_come_in_time_cost_nothing(gpus: int, how: dict[str, object]) -> None:
    assert gathering(gpus, **how) == 0


def test_weights_are_shared_out_where_one_gpu_does_not_hold_the_states() -> None:
    small, scored = workload_of("qwen2.5-0.5b"), Execution(micro_batch=1)
    assert Driver.GATHERING not in forward_seconds(small, H100, 16, 256, scored)
    assert Driver.GATHERING in forward_seconds(LARGE, H100, 16, 256, scored)


def test_experts_one_after_the_other_take_longer_the_more_micro_batches_there_are() -> None:
    workload = workload_of("qwen3-30b-a3b")
    grouped, looped = (
        forward_seconds(workload, H100, 8, 256, Execution(loops_experts=loops))[Driver.EXPERTS]
        for loops in (False, True)
    )
    one_by_one = forward_seconds(workload, H100, 8, 256, Execution(loops_experts=True, micro_batch=1))
    assert grouped < looped < one_by_one[Driver.EXPERTS]


def test_an_optimizer_on_the_cpu_takes_its_time_and_less_on_more_nodes() -> None:
    one, two = (
        train_seconds(LARGE, H100, gpus, LOAD, run_as(offloads_optimizer=True))[Driver.OFFLOADING] for gpus in (8, 16)
    )
    assert one == 2 * two > 10
    adapters = train_seconds(LARGE, H100, 8, LOAD, run_as(offloads_optimizer=True, lora_rank=16))
    assert adapters[Driver.OFFLOADING] < one / 20


def test_weights_reach_engines_on_other_nodes_late() -> None:
    near, far = Placement(4, 4, False), Placement(16, 16, False)
    sent = [total(sync_seconds(LARGE, H100, where, Execution(sharding="always"))) for where in (near, far)]
    assert sent[1] > 5 * sent[0]
    assert sync_seconds(LARGE, H100, Placement(8, 8, True), Execution(engines=False)) == {}


def test_without_an_engine_each_micro_batch_waits_for_its_longest_answer() -> None:
    workload = workload_of("qwen2.5-3b", cap=350, mean_share=0.33, prompt=2000)
    with_engine, without = (
        total(generate_seconds(workload, A100, 4, LOAD, run_as(engines=engines))) for engines in (True, False)
    )
    assert without > 8 * with_engine
    pairs, all_at_once = (
        total(generate_seconds(workload, A100, 4, LOAD, run_as(engines=False, micro_batch=size))) for size in (2, 64)
    )
    assert pairs > 4 * all_at_once


def waiting(turns: Turns, staleness: int = 0, workload: Workload = LARGE) -> float:
    traits = replace(run_as(), staleness_bound=staleness)
    return generate_seconds(replace(workload, turns=turns), H100, 16, LOAD, traits).get(Driver.TOOLS, 0.0)


@given(count=st.integers(1, 50), seconds=st.floats(0.01, 30), environments=st.integers(1, 512))
def test_a_step_waits_at_least_for_the_mean_trajectory_and_for_waves_of_environments(
    count: int, seconds: float, environments: int
) -> None:
    all_at_once, few = (waiting(Turns(count, seconds, environments=some)) for some in (None, environments))
    assert all_at_once >= count * seconds * (1 - 1e-9)
    assert few >= max(1, 256 / environments) * count * seconds * (1 - 1e-9)
    assert waiting(Turns(count, seconds), staleness=1) <= all_at_once + 1e-9, "a stream waits for no slowest one"


def test_the_slowest_trajectory_ends_a_synchronous_step() -> None:
    long_tools = waiting(Turns(20, 30.0))
    assert long_tools > 1.5 * 600
    assert waiting(Turns(20, 0.1)) < 1.1 * 2, "beside the longest response short tools hide"


def test_what_tools_answer_is_read_and_trained_on_and_a_prefix_that_is_not_kept_is_read_again() -> None:
    plain, answered, uncached = (
        replace(LARGE, turns=turns) for turns in (Turns(8), Turns(8, 0, 500), Turns(8, 0, 500, prefix_cached=False))
    )
    read = [
        generate_seconds(some, H100, 16, LOAD, run_as())[Driver.PREFILL_COMPUTE] for some in (plain, answered, uncached)
    ]
    assert read[0] < read[1] < read[2] / 4
    trained = [total(train_seconds(some, H100, 16, LOAD, run_as())) for some in (plain, answered)]
    assert trained[0] < trained[1]
