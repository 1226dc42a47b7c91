from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import catalogue
from budgets.cost import step_cost
from budgets.errors import InfeasibleError
from budgets.execution import USUAL, Execution
from budgets.generation import evaluate_seconds, generate_seconds
from budgets.hardware import Gpu, Hardware
from budgets.memory import Placement, cache_room, engine_sizes, training_bytes, training_gpus, usual_engine
from budgets.models import ModelShape
from budgets.training import WAKE_SECONDS, forward_seconds, sync_seconds, train_seconds
from budgets.work import Driver, StepLoad, reward_seconds, total
from budgets.workload import RecipeTraits, Workload
from planner.price.measured_runs import measured_run
from tests.budgets.traits import TRAITS
from tests.budgets.workloads import workload_of

H100, A100 = catalogue.gpu("h100"), catalogue.gpu("a100-80")
EASY, DR_GRPO, DAPO, SCALERL = (TRAITS[name] for name in ("easy", "dr-grpo", "dapo", "scalerl"))


IN_TURN = Placement(8, 8, colocated=True)


def load_of(rollouts: float, prompts: float = 8) -> StepLoad:
    return StepLoad(prompts=prompts, generated=rollouts, trained=rollouts)


@pytest.mark.parametrize(
    ("recipe", "signal", "expected"),
    [
        ("grpo", 0.5, (32, 256, 256)),  # keeps all it generates
        ("dapo", 0.5, (64, 512, 256)),  # generates until the batch is full
        ("dapo", 0.01, (320, 2560, 256)),  # and gives up at ten times the batch
        ("dapo", 0.0, (320, 2560, 256)),
        ("scalerl", 0.5, (32, 256, 128)),  # drops without refilling
    ],
)
def test_what_a_recipe_generates_and_trains_on(
    recipe: str, signal: float, expected: tuple[float, float, float]
) -> None:
    assert StepLoad.of(8, 32, TRAITS[recipe], signal) == StepLoad(*expected)


def test_a_short_cache_makes_waves() -> None:
    """With the cache for a quarter of the batch, an engine decodes about four times as many steps."""
    workload = workload_of("qwen3-8b", cap=8192, mean_share=0.5, spread=0.0)
    fits = 0.9 * 80e9 - workload.model.weight_bytes
    resident = 256 + 0.5 * workload.responses.mean
    batch = 4 * int(fits / workload.model.cache_bytes(1) / resident)
    short = generate_seconds(workload, H100, 1, load_of(batch), DR_GRPO)[Driver.DECODE_OVERHEAD]
    roomy = generate_seconds(workload, replace(H100, memory_gb=1000), 1, load_of(batch), DR_GRPO)
    assert short / roomy[Driver.DECODE_OVERHEAD] == pytest.approx(4, rel=0.05)


def test_updates_on_one_batch_share_its_generation() -> None:
    """Sixteen updates on a batch sixteen times as large: an update pays a sixteenth of that, and waits less often."""
    workload, sixteen = workload_of(), replace(DR_GRPO, updates_per_batch=16)
    shared = generate_seconds(workload, H100, 8, load_of(64, 8), sixteen)
    whole = generate_seconds(workload, H100, 8, load_of(16 * 64, 16 * 8), DR_GRPO)
    assert total(shared) == pytest.approx(total(whole) / 16)
    assert total(shared) < 0.5 * total(generate_seconds(workload, H100, 8, load_of(64, 8), DR_GRPO))


def test_more_staleness_allows_more_in_flight() -> None:
    seconds = [
        generate_seconds(workload_of(), H100, 8, load_of(128), replace(SCALERL, staleness_bound=bound))
        for bound in (1, 4, 8)
    ]
    overheads = [one[Driver.DECODE_OVERHEAD] for one in seconds]
    assert overheads[0] > 1.3 * overheads[1] > 1.3 * overheads[2]


def test_an_engine_is_the_smallest_that_its_weights_half_fill() -> None:
    asked = {"qwen3-8b": 1, "qwen2.5-32b": 2, "qwen2.5-72b": 4, "qwen3-235b-a22b": 8, "deepseek-v3": 64}
    for name, size in asked.items():
        workload = workload_of(name)
        assert usual_engine(workload, H100, engine_sizes(workload, H100, 64)) == size
        chosen = generate_seconds(workload, H100, 64, load_of(512), DR_GRPO)
        assert chosen == generate_seconds(workload, H100, 64, load_of(512), DR_GRPO, engine_gpus=size)


def test_an_engine_on_gpus_of_its_own_is_never_woken() -> None:
    beside, woken = (total(sync_seconds(workload_of(), H100, where)) for where in (Placement(4, 4, False), IN_TURN))
    assert 0 < beside < woken - WAKE_SECONDS


def test_the_old_policy_is_scored_once_where_the_trainer_always_does() -> None:
    workload, scoring = workload_of(), replace(DAPO, old_log_probs=True)
    once = total(forward_seconds(workload, H100, 4, 64, scoring.execution))
    with_it, beside = (
        train_seconds(workload, H100, 4, load_of(64), traits)[Driver.TRAIN_COMPUTE] for traits in (DAPO, scoring)
    )
    assert with_it == pytest.approx(beside + once)


# What packing, LoRA, fp8 and a slow reward do to the seconds of a step and to what fits


LOAD = StepLoad(prompts=64, generated=1024, trained=1024)


def run_as(traits: RecipeTraits = EASY, **change: Any) -> RecipeTraits:
    return replace(traits, execution=replace(USUAL, **change))


def trained(workload: Workload, traits: RecipeTraits, gpu: Gpu = H100) -> float:
    seconds = train_seconds(workload, gpu, 8, LOAD, traits)
    return total(seconds) - seconds[Driver.FIXED]


def generated(workload: Workload, traits: RecipeTraits, gpu: Gpu = H100) -> float:
    return total(generate_seconds(workload, gpu, 8, LOAD, traits))


# Engines


def test_engines_have_the_gpus_that_are_given() -> None:
    workload = workload_of()
    usual, wide = (generate_seconds(workload, H100, 8, LOAD, run_as(engine_gpus=size)) for size in (None, 8))

    assert engine_sizes(workload, H100, 8, run_as(engine_gpus=2).execution) == [2]
    assert engine_sizes(workload, H100, 4, run_as(engine_gpus=8).execution) == []
    assert wide == generate_seconds(workload, H100, 8, LOAD, EASY, engine_gpus=8) != usual


def test_an_engine_that_is_too_small_is_refused_with_a_larger_one() -> None:
    workload = replace(workload_of(), model=catalogue.model("qwen2.5-72b"))
    with pytest.raises(InfeasibleError, match=r"on the GPU that it may span. .*larger \[cost\] engine_gpus than 1"):
        step_cost(workload, Hardware(H100, 64, 64), run_as(engine_gpus=1), 8, 64)


# Packing


def test_padding_costs_every_pass_over_what_is_trained_on() -> None:
    workload, padded = workload_of(), run_as(replace(EASY, old_log_probs=True), packing=False)
    lengths = workload.responses
    packed = replace(EASY, old_log_probs=True)
    least = lengths.longest_of(4) / lengths.mean
    scoring, packed_scoring = (
        total(forward_seconds(workload, H100, 8, LOAD.trained, traits.execution)) for traits in (padded, packed)
    )
    assert least * 0.9 < scoring / packed_scoring < least**2
    assert generated(workload, padded) == generated(workload, packed)
    alone = run_as(packing=False, micro_batch=1)
    assert trained(workload, alone) == trained(workload, EASY) < trained(workload, run_as(packing=False))
    one, four = (training_bytes(workload, traits, 10**9) for traits in (EASY, run_as(packing=False, micro_batch=4)))
    assert four == pytest.approx(4 * one, rel=1e-3)  # a padded micro-batch must fit with all its sequences
    alike = workload_of(spread=0.0)
    assert trained(alike, run_as(packing=False)) == trained(alike, EASY)


# Speculative decoding


def test_speculation_makes_a_step_as_fast_as_published() -> None:
    """Qwen3.5-9B in SkyRL: 400.7 s a step without, 246.8 s with decoding twice as fast; lengths are not known."""
    row = {"framework": "SkyRL", "model_shape": "qwen3.5-9b", "gpu_kind": "h100", "gpu_count": "8"}
    row |= {"rollouts_per_prompt": "8", "prompts_per_batch": "32", "max_response_tokens": "8192"}
    for mean in ("2000", "4000", "6000"):
        without, with_it = (
            measured_run({**row, "mean_response_tokens": mean, "speculation": times}).batch_seconds()
            for times in ("", "2.0")
        )
        assert with_it / without == pytest.approx(246.8 / 400.7, rel=0.2)


# LoRA


def test_adapters_stand_beside_every_projection() -> None:
    shape = ModelShape("tiny", 96, 3, 4, 2, 24, 384, 64, 64, tied_embeddings=True)
    attention = (96 + 96) + 2 * (96 + 48) + (96 + 96)
    assert shape.adapter_parameters(8) == 8 * 3 * (attention + 3 * (96 + 384))


def test_what_needs_a_node_is_trained_on_two_gpus_with_lora() -> None:
    workload = workload_of("qwen2.5-32b", cap=4096)
    full, adapted = (training_gpus(workload, traits, H100) for traits in (EASY, run_as(lora_rank=32)))
    assert full is not None
    assert full > 8
    assert adapted == 2
    assert training_bytes(workload, run_as(lora_rank=32), 1) > workload.model.weight_bytes
    with pytest.raises(InfeasibleError):
        step_cost(workload, Hardware(H100, 2, 2), EASY, 16, 64)
    assert step_cost(workload, Hardware(H100, 2, 2), run_as(lora_rank=32), 16, 64).step_seconds > 0


def test_adapters_are_sent_alone_where_the_trainer_does_so() -> None:
    ways = (Execution(lora_rank=32, sends_adapters=True), Execution(lora_rank=32), Execution(sends_adapters=True))
    alone, merged, whole = (total(sync_seconds(workload_of(), H100, IN_TURN, way)) for way in ways)
    assert alone < merged == whole == total(sync_seconds(workload_of(), H100, IN_TURN))


# fp8


@pytest.mark.parametrize(("model", "cap"), [("qwen3-8b", 512), ("llama-3.1-70b", 8192), ("qwen3-30b-a3b", 8192)])
@pytest.mark.parametrize("gpu", [H100, A100], ids=["h100", "a100"])
def test_fp8_rollouts_are_faster_and_at_most_twice_as_fast(model: str, cap: int, gpu: Gpu) -> None:
    workload = workload_of(model, cap=cap)
    ratio = generated(workload, run_as(fp8_rollouts=True), gpu) / generated(workload, EASY, gpu)
    # More room for caches may save waves of decoding beside the halved weights; operations of bf16 save nothing.
    assert 0.4 < ratio <= 1
    assert ratio < 1 or gpu.fp8_times == 1
    assert trained(workload, run_as(fp8_rollouts=True), gpu) == trained(workload, EASY, gpu)


def test_fp8_weights_leave_room_for_caches_and_fit_smaller_engines() -> None:
    workload, fp8, h200 = workload_of("deepseek-v3"), Execution(fp8_rollouts=True), catalogue.gpu("h200")
    model = workload.model
    saved = cache_room(workload, h200, 16, fp8) - cache_room(workload, h200, 16)
    assert saved == model.parameters - 2 * model.head_parameters
    assert engine_sizes(workload, h200, 64)[0] == 16
    assert engine_sizes(workload, h200, 64, fp8)[0] == 8  # one node


def test_fp8_training_speeds_up_products_and_leaves_the_states() -> None:
    workload, fp8 = workload_of(), run_as(fp8_training=True)
    assert 0.5 < trained(workload, fp8) / trained(workload, EASY) < 1
    assert trained(workload, fp8, A100) == trained(workload, EASY, A100)
    assert training_bytes(workload, fp8, 8) == training_bytes(workload, EASY, 8)


# The reward


@given(seconds=st.floats(1e-3, 600), parallel=st.integers(1, 4096), updates=st.integers(1, 16))
def test_a_reward_takes_its_turns_and_at_least_one(seconds: float, parallel: int, updates: int) -> None:
    traits = run_as(replace(EASY, updates_per_batch=updates), reward_seconds=seconds, reward_parallel=parallel)
    taken = total(reward_seconds(LOAD, traits))
    assert updates * taken >= seconds * (1 - 1e-12)
    assert taken == pytest.approx(seconds * max(1 / updates, 1024 / parallel))


def test_a_validation_is_scored_where_scoring_takes_time() -> None:
    workload = workload_of()
    judged = evaluate_seconds(workload, H100, 8, execution=Execution(reward_seconds=5.0, reward_parallel=256))
    assert judged[Driver.REWARD] == pytest.approx(5 * workload.validation.rollouts / 256)
    assert Driver.REWARD not in evaluate_seconds(workload, H100, 8)


# All of it


def test_only_deviations_from_the_usual_are_named() -> None:
    assert USUAL.deviations() == []
    unusual = Execution(2, False, lora_rank=32, fp8_rollouts=True, fp8_training=True, reward_seconds=1.0)
    told = " ".join(sentence.split()[0] for sentence in unusual.deviations())
    assert told == "engines padded LoRA rollouts training 1"
