"""What cannot be is refused with what was given, and with what is allowed."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from budgets import catalogue
from budgets.allocation import Allocation, steps_for_budget
from budgets.errors import InputError
from budgets.execution import Execution
from budgets.growth import Growth
from budgets.hardware import Hardware
from budgets.ledger import Ledger
from budgets.lengths import ResponseLengths
from budgets.signal import BetaPassRates, MeasuredPassRates, UniformPassRates
from budgets.workload import RecipeTraits, Validation
from tests.budgets.workloads import TINY, workload_of

H100 = catalogue.gpu("h100")
CAPABILITY = "GPU 'h100': "
INTERRUPTED = {"interrupted_from": 0.5, "interrupted_until": 0.4}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Allocation(1, 8, 10), "rollouts per prompt is 1"),
        (lambda: Allocation(2, 0, 10), "prompts per batch is 0"),
        (lambda: Allocation(2, 8, -1), "update steps is -1"),
        (lambda: steps_for_budget(1.0, 0.0), "must be positive"),
        (
            lambda: replace(H100, bandwidth_gb_per_s=-1.0),
            CAPABILITY + "bandwidth_gb_per_s is -1.0, it must",
        ),
        (lambda: replace(H100, dense_tflops=math.nan), CAPABILITY + "dense_tflops is nan, it must be positive"),
        (
            lambda: replace(H100, decode_overhead_ms=-1.0),
            CAPABILITY + "decode_overhead_ms is -1.0, it cannot",
        ),
        (lambda: replace(H100, fp8_times=0.5), CAPABILITY + "fp8_times is 0.5, it must be at least 1"),
        (lambda: replace(H100, gpus_per_node=0), CAPABILITY + "gpus_per_node is 0, a node has at least 1"),
        (lambda: Hardware(H100, 0, 1), "0 GPUs: at least 1"),
        (lambda: Hardware(H100, 8, 0), "0 GPUs per trial of 8"),
        (lambda: Hardware(H100, 8, 9), "9 GPUs per trial of 8"),
        (
            lambda: workload_of(cap=40960 - 255),
            "context of qwen3-8b, 40,960: a response may have at most 40,704",
        ),
        (lambda: workload_of(prompt=50_000), "exceed the context of qwen3-8b, 40,960: no response has room beside it"),
        (lambda: workload_of(prompt=0), "prompts of 0 tokens: it must be positive"),
        (lambda: replace(workload_of(), prompt_set_size=0), "a prompt set of 0"),
        (lambda: Validation(300, 0, 20), "each must be at least 1"),
        (lambda: RecipeTraits("mine", learning_rate_schedule="cosine"), "'cosine', which depends on the run's length"),
        (lambda: RecipeTraits("mine", staleness_bound=-1), "staleness bound -1 must be at least 0"),
        (lambda: RecipeTraits("mine", updates_per_batch=0), "updates per batch 0 at least 1"),
        (lambda: RecipeTraits("mine", interrupted_from=0.5), "from 0.5 to None of the longest"),
        (lambda: RecipeTraits("mine", **INTERRUPTED), "from 0.5 to 0.4 of the longest"),
        (lambda: Execution(micro_batch=0), "micro-batch of 0"),
        (lambda: Execution(reward_seconds=0.0), "reward of 0 s"),
        (lambda: Execution(reward_parallel=0), "0 at once"),
        (lambda: Execution(lora_rank=0), "rank 0"),
        (lambda: Execution(engine_gpus=0), "engines of 0 GPUs"),
        (lambda: Execution(speculation=0.5), "speculation 0.5"),
        (lambda: ResponseLengths(0.0, 8192, 0.6), "positive and at most the cap, 8192"),
        (lambda: ResponseLengths(9000.0, 8192, 0.6), "positive and at most the cap, 8192"),
        (lambda: ResponseLengths(math.nan, 8192, 0.6), "positive and at most the cap, 8192"),
        (lambda: ResponseLengths(2000.0, 8192, -0.1), r"between 0 .* and 3"),
        (lambda: ResponseLengths(2000.0, 8192, math.nan), r"between 0 .* and 3"),
        (lambda: UniformPassRates(0.5, 0.5), "0 ≤ low < high ≤ 1"),
        (lambda: UniformPassRates(math.nan, 0.5), "0 ≤ low < high ≤ 1"),
        (lambda: BetaPassRates(0.0), "strictly between 0 and 1"),
        (lambda: MeasuredPassRates(()), "at least one prompt"),
        (lambda: MeasuredPassRates((0.2, 35)), r"pass rate 35: .*percentages must be divided by 100"),
        (lambda: replace(TINY, window_layers=3), "are parts of its 2 layers"),
        (lambda: replace(TINY, dense_layers=3), "are parts of its 2 layers"),
        (lambda: replace(TINY, linear_layers=-1), "are parts of its 2 layers"),
        (
            lambda: Growth.named("fast"),
            "'fast' cannot be read: give the last batch over the first, such as 4x",
        ),
        (lambda: Growth.named("4"), "growth '4' cannot be read"),
        (lambda: Growth.named("-4x"), "growth '-4x' cannot be read"),
        (lambda: Growth.named("1x"), "growth by a factor of 1 .* the factor must be above 1"),
        (lambda: Growth.named("4x@0"), "first doubling after 0 updates: .* at least 1"),
        (lambda: Growth(4).prompts(16, -1), "update -1 is asked for"),
        (lambda: Growth(4).stages(0), "prompts per batch is 0"),
        (lambda: Ledger(-1.0), "budget is"),
        (lambda: Ledger(10.0, spent=math.nan), "spent is"),
        (lambda: Ledger(10.0).reserve("a", math.inf), "reservation is"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
