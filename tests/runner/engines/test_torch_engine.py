"""What the torch engine promises beyond the port: waves, compaction, a shared model and a copy of its own."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MambaConfig, MambaForCausalLM, T5Config, T5ForConditionalGeneration

from budgets.errors import InputError
from runner.engines import torch_decode
from runner.engines.torch_engine import TorchEngine
from runner.engines.torch_sampling import Noise, draw, invert
from runner.ports.engine import Interruption, Rollouts, Sampling
from tests.conformance.tiny_llama import expected_logprobs
from tests.runner.engines.models import CONFIGS, END, PAD, PROMPTS, VOCABULARY, build

CPU = torch.device("cpu")


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


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("prompts", [PROMPTS, [[5, 6, 7], [8, 9, 10]]], ids=["padded", "of one length"])
def test_logprobs_are_those_of_a_full_pass(name: str, prompts: list[list[int]]) -> None:
    model = build(name)
    rollouts = TorchEngine(model, end_id=END, pad_id=PAD).generate(prompts, 3, Sampling(10, 0.6), seed=5)
    torch.testing.assert_close(rollouts.logprobs, expected_logprobs(model, rollouts, 0.6), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_responses_are_those_of_transformers(name: str) -> None:
    model = build(name)
    rollouts = TorchEngine(model, end_id=END, pad_id=PAD).generate(PROMPTS, 1, Sampling(12, 0.0), seed=0)
    for row, prompt in enumerate(PROMPTS):
        ids = torch.tensor([prompt])
        whole = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=PAD
        )
        assert rollouts.tokens[row][rollouts.mask[row]].tolist() == whole[0, len(prompt) :].tolist()


def test_eager_attention_is_as_good() -> None:
    model = build("llama")
    model.set_attn_implementation("eager")
    rollouts = TorchEngine(model, end_id=END, pad_id=PAD).generate(PROMPTS, 2, Sampling(8), seed=3)
    torch.testing.assert_close(rollouts.logprobs, expected_logprobs(model, rollouts), atol=1e-5, rtol=0)


def test_models_that_keep_a_state_or_have_an_encoder_are_refused() -> None:
    model = MambaForCausalLM(MambaConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, state_size=4))
    with pytest.raises(InputError, match=r"MambaForCausalLM has .*: the torch engine decodes attention layers only"):
        TorchEngine(model, end_id=END, pad_id=PAD)
    config = T5Config(vocab_size=20, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(InputError, match="decoder"):
        TorchEngine(T5ForConditionalGeneration(config), end_id=END, pad_id=PAD)


def test_noise_depends_on_seed_row_and_step_alone() -> None:
    noise = Noise(3, 10, CPU)
    forwards = [noise.at(step).clone() for step in range(70)]
    backwards = [Noise(3, 10, CPU).at(step) for step in reversed(range(70))]
    assert all(torch.equal(one, two) for one, two in zip(forwards, reversed(backwards), strict=True))
    assert len(torch.cat(forwards).unique()) == 700
    assert not torch.equal(Noise(4, 10, CPU).at(0), forwards[0])


@pytest.mark.parametrize("seed", [0, -1, 2**63 + 5, 2**70])
def test_any_whole_number_is_a_seed(seed: int) -> None:
    drawn = Noise(seed, 1000, CPU).at(0)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.05)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**31), st.floats(0, 1, exclude_max=True))
def test_inversion_is_the_first_entry_that_passes(entries: int, seed: int, uniform: float) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=entries).astype(np.float32) ** 3 * (rng.random(entries) < 0.6)
    weights[rng.integers(entries)] += 0.5
    probabilities = torch.from_numpy(weights / weights.sum()).float()[None]
    chosen = int(invert(probabilities, torch.tensor([[uniform]], dtype=torch.float64)))
    cumulative = probabilities[0].double().cumsum(0)
    target = uniform * float(cumulative[-1])
    assert probabilities[0, chosen] > 0
    assert float(cumulative[chosen]) >= target - 1e-6
    assert (float(cumulative[chosen - 1]) if chosen else 0.0) <= target + 1e-6


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53, 1.0])
def test_the_ends_of_the_interval_give_no_impossible_token(uniform: float) -> None:
    probabilities = torch.zeros(1, 37)
    probabilities[0, 5] = probabilities[0, 30] = 0.5
    chosen = int(invert(probabilities, torch.tensor([[uniform]], dtype=torch.float64)))
    assert chosen == (5 if uniform == 0 else 30)


def test_temperature_zero_takes_the_likeliest_at_its_probability_at_one() -> None:
    logits = torch.randn(20, 50, generator=torch.Generator().manual_seed(0))
    tokens, logprobs = draw(logits, 0.0, torch.full((20,), 0.5, dtype=torch.float64))
    assert torch.equal(tokens, logits.argmax(-1))
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).max(-1).values)
    tokens, logprobs = draw(100 * logits, 1e-38, Noise(0, 20, CPU).at(0))
    assert torch.equal(tokens, logits.argmax(-1))
    assert (logprobs == 0).all()


def test_a_token_of_tiny_probability_keeps_its_logprob() -> None:
    logits = torch.tensor([[0.0, -25.0]])
    tokens, logprobs = draw(logits, 1.0, torch.tensor([1.0], dtype=torch.float64))
    assert tokens.item() == 1
    assert logprobs.item() == pytest.approx(-25, abs=1e-5)
