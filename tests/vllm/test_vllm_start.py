"""What vLLM is started with, and what it leaves of the process that it runs in."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from budgets.errors import InputError
from runner.engines.vllm_engine import VllmEngine
from runner.ports.engine import Sampling
from tests.conformance.tiny_llama import CONTEXT, END, PAD, PROMPTS, expected_logprobs, saved, tiny_llama
from tests.vllm.conftest import Shared


@pytest.fixture
def start(shared: Shared, tmp_path: Path) -> Iterator[Callable[..., VllmEngine]]:
    """Starts engines that are closed after the test."""

    def started(*, tied: bool = False, **options: object) -> VllmEngine:
        shared.close()
        path = saved(tiny_llama(0, tied=tied), tmp_path)
        shared.engine = VllmEngine(path, end_id=END, pad_id=PAD, **{"context": CONTEXT, **options})
        return shared.engine

    yield started
    shared.close()


def test_a_second_engine_is_refused_while_one_is_open(engine: VllmEngine, shared: Shared) -> None:
    with pytest.raises(InputError, match="close the other vLLM engine first"):
        VllmEngine(shared.path, end_id=END, pad_id=PAD, context=CONTEXT)
    assert engine.generate(PROMPTS, 1, Sampling(max_tokens=2), seed=1).count == len(PROMPTS)


def test_the_process_keeps_its_threads_and_what_it_preloads(engine: VllmEngine) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    assert torch.get_num_threads() == threads + 1
    torch.set_num_threads(threads)
    assert "vllm" not in os.environ.get("LD_PRELOAD", "")


def test_tied_weights_are_replaced_together(start: Callable[..., VllmEngine]) -> None:
    engine = start(tied=True)
    for seed in (0, 1):
        model = tiny_llama(seed, tied=True)
        assert "lm_head.weight" in model.state_dict()
        engine.load_weights(model.state_dict().items())
        rollouts = engine.generate(PROMPTS, 4, Sampling(max_tokens=12), seed=3)
        torch.testing.assert_close(rollouts.logprobs, expected_logprobs(model, rollouts), atol=1e-4, rtol=0)


def test_logits_of_bfloat16_weights_are_fp32(start: Callable[..., VllmEngine]) -> None:
    # With logits near 300, a head in bfloat16 could give nothing but multiples of 2 and their differences.
    engine = start(weights="bfloat16")
    model, prompt = tiny_llama(0), PROMPTS[2]
    hidden = model.model(torch.tensor([prompt])).last_hidden_state[0, -1]
    weights = dict(model.state_dict())
    weights["lm_head.weight"] = weights["lm_head.weight"] + 300 * hidden / hidden.square().sum()
    engine.load_weights(weights.items())
    rollouts = engine.generate([prompt], 32, Sampling(max_tokens=1, temperature=2.0), seed=4)
    differences = 2.0 * (rollouts.logprobs[:, 0] - rollouts.logprobs[0, 0])
    assert (differences / 2 - (differences / 2).round()).abs().max() > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 5000}, r"context of 5000: .*320"),
        ({"weights": "float8"}, "in float8"),
        ({"device": "cuda"}, r"runs on 'cpu'.*rlplan\[vllm\]"),
    ],
)
def test_what_vllm_cannot_do_is_refused(
    start: Callable[..., VllmEngine], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        start(**options)
