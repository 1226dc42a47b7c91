"""How a trial's memory is shared: what trainers' own scripts do for the same models, and what never may be."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import catalogue
from budgets.memory import CHUNKED, FUSED, WHOLE, Placement
from budgets.memory_plan import Demand, Means, plan_memory

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


MODELS = st.sampled_from([name for name in catalogue.names("models") if catalogue.model(name).context >= 32768])
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
