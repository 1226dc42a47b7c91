from dataclasses import replace

import pytest

from budgets import catalogue
from budgets.memory import engine_sizes, usual_engine
from budgets.work import (
    WAKE_SECONDS,
    Driver,
    StepLoad,
    forward_seconds,
    generate_seconds,
    sync_seconds,
    total,
    train_seconds,
)
from tests.budgets.traits import TRAITS
from tests.budgets.workloads import workload_of

H100 = catalogue.gpu("h100")
GRPO, DR_GRPO, DAPO, SCALERL = (TRAITS[name] for name in ("grpo", "dr-grpo", "dapo", "scalerl"))


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
    beside, woken = (total(sync_seconds(workload_of(), H100, colocated=shared)) for shared in (False, True))
    assert 0 < beside < woken - WAKE_SECONDS


def test_the_old_policy_is_scored_once_where_the_trainer_always_does() -> None:
    workload, scoring = workload_of(), replace(DAPO, old_log_probs=True)
    once = total(forward_seconds(workload, H100, 4, 64, scoring.execution))
    with_it, beside = (
        train_seconds(workload, H100, 4, load_of(64), traits)[Driver.TRAIN_COMPUTE] for traits in (DAPO, scoring)
    )
    assert with_it == pytest.approx(beside + once)
