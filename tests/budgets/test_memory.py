import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from budgets import catalogue
from budgets.cost import step_cost
from budgets.errors import InfeasibleError
from budgets.hardware import Hardware, whole_share
from budgets.memory import (
    CHUNKED,
    FUSED,
    WHOLE,
    Placement,
    activation_bytes,
    engine_sizes,
    fewest_gpus,
    memory_share,
    require_fit,
    training_bytes,
    training_gpus,
)
from budgets.memory_plan import Demand, Means, plan_memory
from budgets.workload import Workload
from tests.budgets.traits import TRAITS
from tests.budgets.workloads import workload_of

GPUS = [catalogue.gpu(name) for name in catalogue.names("gpus")]
EASY, HARD, SCALERL = (TRAITS[name] for name in ("easy", "hard", "scalerl"))


def refusal(workload: Workload, recipe: str, gpu: str, gpus: int, *, alternatives: bool = False) -> str:
    hardware = Hardware(catalogue.gpu(gpu), gpus, gpus)
    with pytest.raises(InfeasibleError) as raised:
        require_fit(workload, TRAITS[recipe], hardware, GPUS if alternatives else ())
    return str(raised.value)


def gigabytes(message: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"([\d,.]+) GB", message)]


def test_states_are_shared_and_activations_are_not() -> None:
    workload = workload_of()
    states = 16 * workload.model.parameters
    assert training_bytes(workload, HARD, 1) == states + activation_bytes(workload)
    assert training_bytes(workload, HARD, 8) == states / 8 + activation_bytes(workload)
    # A KL term keeps a second copy of the weights, 2 bytes each.
    assert training_bytes(workload, EASY, 1) - training_bytes(workload, HARD, 1) == workload.model.weight_bytes


@pytest.mark.parametrize(
    ("gpus", "shares"),
    [(64, [1, 2, 4, 8, 16, 32, 64]), (24, [1, 2, 4, 8, 24]), (12, [1, 2, 4]), (7, [1]), (1, [1])],
)
def test_even_shares_stay_in_a_node_or_fill_whole_ones_and_leave_no_gpu_over(gpus: int, shares: list[int]) -> None:
    assert list(Hardware(catalogue.gpu("h100"), gpus, gpus).even_shares) == shares


@pytest.mark.parametrize(
    ("model", "gpus", "sizes"),
    [
        ("qwen3-8b", 8, [1, 2, 4, 8]),
        ("qwen3-8b", 7, [1, 2, 4]),
        ("qwen3-8b", 512, [1, 2, 4, 8]),
        ("qwen2.5-72b", 8, [4, 8]),
        ("qwen2.5-72b", 3, []),
    ],
)
def test_engines_span_powers_of_two(model: str, gpus: int, sizes: list[int]) -> None:
    assert engine_sizes(workload_of(model), catalogue.gpu("h100"), gpus) == sizes


@pytest.mark.parametrize(
    ("workload", "asked", "said"),
    [
        (
            {"model": "qwen3-8b"},
            ("hard", "h100", 1),
            r"training needs 140 GB \(states, activations of a sequence of 8,448 tokens or more\), "
            r"72 GB are usable\. It fits 2 h100.*, or a smaller model$",
        ),
        (
            {"model": "qwen3-1.7b"},
            ("scalerl", "gb200", 1),
            r"training needs .* GB .* and an engine .* GB on GPUs of its own.* It fits 2 gb200 or 2 ",
        ),
        (
            {"model": "qwen3-14b", "cap": 64},
            ("hard", "cpu", 76),
            r"an engine needs 30 GB \(weights, a sequence of 320 tokens\), 29 GB are usable on the 8 GPUs"
            r".*No number of cpu will do; it fits 1 b300 or 1 gb300",
        ),
        ({"model": "qwen2.5-7b", "cap": 30000}, ("grpo", "cpu", 56), r"No number of cpu will do"),
    ],
)
def test_what_does_not_fit_is_said_with_numbers_and_what_would(
    workload: dict[str, Any], asked: tuple[str, str, int], said: str
) -> None:
    message = refusal(workload_of(**workload), *asked, alternatives=True)
    assert message.startswith(f"{workload['model']} does not fit {asked[2]} {asked[1]}: ")
    assert re.search(said, message)
    require_fit(workload_of(), SCALERL, Hardware(catalogue.gpu("h100"), 8, 8))


MODELS = st.sampled_from([name for name in catalogue.names("models") if catalogue.model(name).context >= 32768])
RECIPES = st.sampled_from(list(TRAITS))
GPU_NAMES = st.sampled_from(catalogue.names("gpus"))


@given(
    model=MODELS, recipe=RECIPES, gpu=GPU_NAMES, cap=st.sampled_from([64, 2048, 8192, 30000]), gpus=st.integers(1, 60)
)
def test_refusals_are_true(model: str, recipe: str, gpu: str, cap: int, gpus: int) -> None:
    """What a refusal offers fits, the next smaller offer would not, and the figures it names do show a shortfall."""
    workload, traits, kind = workload_of(model, cap=cap), TRAITS[recipe], catalogue.gpu(gpu)
    fewest = fewest_gpus(workload, traits, kind)
    assume(fewest is None or fewest > gpus)
    message = refusal(workload, recipe, gpu, gpus, alternatives=True)
    assert message.startswith(f"{model} does not fit {gpus} {gpu}: ")
    needed, *_, usable = gigabytes(message)
    assert traits.asynchronous or needed >= usable
    for count, name in re.findall(
        r"(\d+) ([a-z0-9-]+)(?= or|,|$)", message.rsplit("it fits" if fewest is None else "It fits")[-1]
    ):
        offered = Hardware(catalogue.gpu(name), int(count), int(count))
        assert step_cost(workload, offered, traits, 8, 8).step_seconds > 0
        if int(count) > 1:
            less = max(share for share in range(1, int(count)) if whole_share(share) == share)
            with pytest.raises(InfeasibleError):
                step_cost(workload, Hardware(offered.gpu, less, less), traits, 8, 8)
    assert fewest is None or f"It fits {whole_share(fewest)} {gpu}" in message


@given(model=MODELS, recipe=RECIPES, gpu=GPU_NAMES, cap=st.sampled_from([64, 8192]))
def test_the_fewest_trainers_fit_and_one_less_does_not(model: str, recipe: str, gpu: str, cap: int) -> None:
    workload, traits, kind = workload_of(model, cap=cap), TRAITS[recipe], catalogue.gpu(gpu)
    trainers = training_gpus(workload, traits, kind)
    if trainers is None:
        assert activation_bytes(workload) >= kind.usable_bytes
        return
    assert memory_share(workload, traits, kind, trainers) <= 1 + 1e-12
    assert trainers == 1 or memory_share(workload, traits, kind, trainers - 1) > 1


# How a trial's memory is shared: what trainers' own scripts do for the same models, and what never may be


VERL = Means(heads=(WHOLE, FUSED), sleeps=None, engine_share=0.6)
MEGATRON = Means(shares="megatron", heads=(WHOLE, CHUNKED), engine_share=0.7)
ALONE = Means(shares=None, heads=(FUSED,), sleeps=False, engine_share=0.5)


def demand_of(model: str, gpus: int, longest: float, **changes: Any) -> Demand:
    demand = Demand(catalogue.model(model), longest, Placement(gpus, gpus, True), 80e9, 8, tokens=16384)
    return replace(demand, **changes)


@pytest.mark.parametrize(
    ("means", "model", "gpus", "longest", "wanted"),
    [
        # verl's examples/grpo_trainer/run_qwen3-8b.sh keeps all states on 8 GPUs beside an engine with 0.6 of them …
        (VERL, "qwen3-8b", 8, 1536, {"sleep": False, "offload": False, "engine_share": 0.6}),
        # … and examples/tuning/14b/qwen2_14b_grpo_4_h800_fsdp_vllm.sh none.
        (VERL, "qwen2.5-14b", 4, 2048, {"sleep": True}),
        # slime's scripts/run-qwen3-32B.sh: tensor parallel 8 and an optimizer in the host's memory on 8 GPUs.
        (MEGATRON, "qwen3-32b", 8, 9216, {"width": 8, "offload": True}),
        # scripts/run-qwen3-30B-A3B.sh: experts on 8 GPUs.
        (MEGATRON, "qwen3-30b-a3b", 8, 9216, {"experts": 8}),
        (ALONE, "qwen3-8b", 8, 9216, {"width": 1, "offload": False, "short_bytes": 0.0}),
    ],
)
def test_a_plan_does_what_trainers_own_scripts_do(
    means: Means, model: str, gpus: int, longest: float, wanted: dict[str, Any]
) -> None:
    plan = plan_memory(demand_of(model, gpus, longest), means)
    assert {name: getattr(plan, name) for name in wanted} == wanted


def test_what_does_not_fit_lacks_bytes_and_what_helps_gives_them() -> None:
    short = demand_of("qwen2.5-72b", 1, 8448)
    assert plan_memory(short, ALONE).short_bytes > 50e9
    assert plan_memory(replace(short, lora_rank=32, placement=Placement(8, 8, True)), ALONE).short_bytes == 0
    assert plan_memory(replace(short, placement=Placement(32, 32, True)), ALONE).short_bytes == 0


MEANS = st.sampled_from([Means(), VERL, MEGATRON, ALONE, Means("tensor"), Means(offloads=False)])


@given(MODELS, MEANS, st.integers(0, 4), st.sampled_from([512, 8192, 30000]), st.booleans())
def test_more_gpus_never_lack_more_and_longer_responses_never_less(
    model: str, means: Means, power: int, longest: int, reference: bool
) -> None:
    demand = demand_of(model, 2**power, longest, reference=reference)
    plan = plan_memory(demand, means)
    wider = plan_memory(replace(demand, placement=Placement(2 ** (power + 1), 2 ** (power + 1), True)), means)
    longer = plan_memory(replace(demand, longest=longest + 1000), means)
    assert wider.short_bytes <= plan.short_bytes * (1 + 1e-9) <= longer.short_bytes * (1 + 1e-9) ** 2
    assert plan.tokens >= longest
    if not plan.short_bytes:
        assert plan.state_bytes + plan.activation_bytes <= demand.usable * (1 + 1e-9)
        resident = 0 if plan.sleep else plan.state_bytes
        assert plan.engine_bytes <= plan.engine_share * demand.memory
        assert resident + plan.engine_bytes <= demand.usable * (1 + 1e-9)
