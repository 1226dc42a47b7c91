"""What the torch engine promises beyond the port: waves, compaction, a shared model and a copy of its own."""

from typing import Any

import pytest
import torch

from runner.engines import torch_decode
from runner.engines.torch_engine import TorchEngine
from runner.ports.engine import Interruption, Rollouts, Sampling
from tests.conformance.tiny_llama import expected_logprobs
from tests.runner.engines.models import END, PAD, PROMPTS, VOCABULARY, build


def rollouts_of(tokens: int = 12, *, cut: Interruption | None = None, **options: Any) -> Rollouts:
    engine = TorchEngine(build(), end_id=END, pad_id=PAD, **options)
    return engine.generate(PROMPTS, 6, Sampling(tokens, 1.8, cut), seed=4)


def assert_alike(one: Rollouts, other: Rollouts) -> None:
    for field in ("tokens", "mask", "forced", "truncated"):
        assert torch.equal(getattr(one, field), getattr(other, field)), field
    torch.testing.assert_close(one.logprobs, other.logprobs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("cut", [None, Interruption((7, 8), 3, 6, closed_by=(9,))], ids=["to-the-end", "interrupted"])
def test_how_rows_are_decoded_changes_nothing(monkeypatch: pytest.MonkeyPatch, cut: Interruption | None) -> None:
    kept = rollouts_of(20, cut=cut, max_rows=30, compact_at=2.0)
    assert len(kept.mask.sum(1).unique()) > 5, "rows end at many different steps"
    assert bool(kept.forced.any()) is (cut is not None)
    ways: list[dict[str, Any]] = [
        {"compact_at": 0.01},
        {"compact_at": 0.6},
        *({"max_rows": rows} for rows in (1, 4, 7)),
    ]
    for options in ways:
        assert_alike(rollouts_of(20, cut=cut, **options), kept)
    monkeypatch.setattr(torch_decode.DecodingParts, "look_every", 7)
    monkeypatch.setattr(torch_decode, "_LOGITS_AT_ONCE", 4 * VOCABULARY)
    assert_alike(rollouts_of(20, cut=cut), kept)


def test_a_longer_limit_only_goes_on() -> None:
    short, long = rollouts_of(tokens=5), rollouts_of(tokens=12)
    assert torch.equal(long.tokens[:, :5], short.tokens)


def test_every_response_can_end_at_once_or_never() -> None:
    model = build()
    with torch.no_grad():
        model.model.norm.weight.zero_()  # every logit is 0, and the first of equals is taken
    never = TorchEngine(model, end_id=END, pad_id=PAD).generate(PROMPTS, 2, Sampling(6, 0.0), 0)
    assert never.truncated.all()
    assert never.tokens.shape == (10, 6)
    at_once = TorchEngine(model, end_id=0, pad_id=0).generate(PROMPTS, 2, Sampling(6, 0.0), 0)
    assert not at_once.truncated.any()
    assert at_once.tokens.tolist() == [[0]] * 10
    assert at_once.mask.all()


def test_a_shared_model_is_trained_after_sampling() -> None:
    model = build().train()
    engine = TorchEngine(model, end_id=END, pad_id=PAD)
    before = engine.generate(PROMPTS, 2, Sampling(6), 1)
    assert model.training
    weight = model.model.embed_tokens.weight
    (weight[before.tokens].sum() * before.logprobs.sum()).backward()
    assert weight.grad is not None
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    engine.load_weights(model.named_parameters())
    assert not torch.equal(engine.generate(PROMPTS, 2, Sampling(6), 1).logprobs, before.logprobs)


def test_dropout_is_off_while_sampling_and_back_after() -> None:
    model = build("gpt2").train()
    rollouts = TorchEngine(model, end_id=END, pad_id=PAD).generate(PROMPTS, 2, Sampling(8), 2)
    assert all(module.training for module in model.modules())
    torch.testing.assert_close(rollouts.logprobs, expected_logprobs(model.eval(), rollouts), atol=1e-5, rtol=0)


def test_a_copy_in_bf16_follows_an_fp32_trainer_by_load_weights_alone() -> None:
    model, other = build(), build(seed=1)
    engine = TorchEngine(model, end_id=END, pad_id=PAD, weights="bfloat16")
    assert model.dtype == torch.float32
    before = engine.generate(PROMPTS, 4, Sampling(8), 3)
    torch.testing.assert_close(before.logprobs, expected_logprobs(model, before), atol=0.3, rtol=0)
    assert not torch.allclose(before.logprobs, expected_logprobs(model, before), atol=1e-5)
    model.load_state_dict(other.state_dict())
    assert torch.equal(engine.generate(PROMPTS, 4, Sampling(8), 3).logprobs, before.logprobs)
    engine.load_weights(model.named_parameters())
    after = engine.generate(PROMPTS, 4, Sampling(8), 3)
    torch.testing.assert_close(after.logprobs, expected_logprobs(other, after), atol=0.3, rtol=0)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_an_fp32_head_takes_new_weights() -> None:
    model = build().bfloat16()
    engine = TorchEngine(model, end_id=END, pad_id=PAD)
    uniform = torch.tensor(1 / VOCABULARY).log()
    before = engine.generate([[5], [6, 7]], 8, Sampling(6), 1).logprobs
    assert not torch.allclose(before, uniform.expand(before.shape), atol=0.1)
    engine.load_weights([("lm_head.weight", torch.zeros(VOCABULARY, 32))])
    after = engine.generate([[5], [6, 7]], 8, Sampling(6), 1)
    torch.testing.assert_close(after.logprobs[after.mask], uniform.expand(int(after.mask.sum())))
