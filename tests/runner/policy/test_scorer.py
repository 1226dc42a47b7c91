"""Log-probabilities of responses, however they are packed and cut; an FP32 head takes most of the mismatch away."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from runner.policy import scorer as scoring
from runner.policy.model import Head, decoder_of
from runner.policy.scorer import Rows, Scorer, split
from tests.runner.engines.models import build

FAMILIES = ("llama", "qwen3", "gpt2", "mistral-past-its-window", "gemma2-in-its-window", "gemma2-past-its-window")
MODELS = {name: build(name) for name in FAMILIES}
PROMPTS = [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10]]


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=12),
    st.integers(1, 6),
    st.integers(1, 200),
    st.randoms(use_true_random=False),
)
def test_every_row_comes_once_with_its_prompt(prompts: list[int], n: int, most: int, random) -> None:
    lengths = [random.randint(0, 30) for _ in range(len(prompts) * n)]
    seen: Counter[int] = Counter()
    for part in split(prompts, n, lengths, most):
        rows = part.rows.tolist()
        seen.update(rows)
        assert len(rows) == len(part.prompts) * part.per_prompt
        owners = [prompt for prompt in part.prompts for _ in range(part.per_prompt)]
        assert [row // n for row in rows] == owners
        assert part.longest >= max(lengths[row] for row in rows)
        padded = sum(max(prompts[p] for p in part.prompts) for _ in part.prompts) + len(rows) * part.longest
        assert padded <= most or len(rows) == 1
    assert seen == Counter(range(len(lengths)))


def rows(prompts: list[list[int]] = PROMPTS, n: int = 2, length: int = 6) -> Rows:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 40, (len(prompts) * n, length), generator=generator)
    lengths = torch.randint(1, length + 1, (len(prompts) * n, 1), generator=generator)
    lengths[0] = length
    return Rows(prompts, n, tokens, torch.arange(length) < lengths)


def one_by_one(model: PreTrainedModel, given: Rows, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Score each response alone, by the model's own forward pass."""
    logprobs, entropies = torch.zeros(given.mask.shape), torch.zeros(given.mask.shape)
    for row, (tokens, mask) in enumerate(zip(given.tokens, given.mask, strict=True)):
        prompt, length = given.prompts[row // given.per_prompt], int(mask.sum())
        sequence = torch.cat([torch.tensor(prompt), tokens[:length]])
        logits = model(sequence[None]).logits[0, len(prompt) - 1 : -1].float() / temperature
        table = logits.log_softmax(dim=-1)
        logprobs[row, :length] = table.gather(-1, tokens[:length, None])[:, 0]
        entropies[row, :length] = -(table.exp() * table).sum(dim=-1)
    return logprobs, entropies


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_scores_are_those_of_each_response_alone(name: str, temperature: float) -> None:
    model = MODELS[name]
    logprobs, entropies = Scorer(model, temperature=temperature, fp32_head=True)(rows(), entropies=True)
    wanted, wanted_entropies = one_by_one(model, rows(), temperature)
    torch.testing.assert_close(logprobs, wanted, atol=2e-5, rtol=0)
    torch.testing.assert_close(entropies, wanted_entropies, atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("given", [rows(), rows(n=1, length=1), rows([[3, 4]] * 2, n=3)], ids=["uneven", "one", "even"])
def test_gradients_are_those_of_each_response_alone(name: str, given: Rows) -> None:
    model = MODELS[name]
    weights = torch.rand(given.mask.shape, generator=torch.Generator().manual_seed(2))
    gradients = []
    for score in (
        lambda: Scorer(model, temperature=1.0, fp32_head=True)(given)[0],
        lambda: one_by_one(model, given, 1)[0],
    ):
        model.zero_grad()
        (score() * weights).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for mine, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, plain, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("entropy_gradient", [False, True])
def test_chunks_of_logits_change_nothing(monkeypatch: pytest.MonkeyPatch, entropy_gradient: bool) -> None:
    model, outcomes = MODELS["llama"], []
    for most in (scoring.MOST_LOGITS, 40 * 5):
        monkeypatch.setattr(scoring, "MOST_LOGITS", most)
        model.zero_grad()
        scorer = Scorer(model, temperature=1.0, fp32_head=True)
        logprobs, entropies = scorer(rows(), entropies=True, entropy_gradient=entropy_gradient)
        assert entropies is not None
        (logprobs.sum() + entropies.sum()).backward()
        outcomes.append((logprobs.detach(), entropies.detach(), model.lm_head.weight.grad.clone()))
    for whole, cut in zip(*outcomes, strict=True):
        torch.testing.assert_close(whole, cut, atol=1e-5, rtol=1e-5)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore:::torch")  # importing its own compiler, torch warns of its own deprecations
def test_a_compiled_decoder_scores_alike_at_any_shape() -> None:
    for each in (rows(), rows(n=3, length=5)):
        plain, compiled = (
            Scorer(MODELS["llama"], temperature=1.0, fp32_head=True, compiled=compiled)(each)[0]
            for compiled in (False, True)
        )
        torch.testing.assert_close(plain, compiled, atol=1e-5, rtol=0)


def peaked_model(seed: int = 0) -> LlamaForCausalLM:
    """Return a model whose logits are large, as those of trained models are: there bf16 has few digits."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=512,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=False,
        )
    )
    with torch.no_grad():
        model.lm_head.weight.mul_(40)
    return model.eval()


@torch.no_grad()
def test_from_the_same_hidden_states_an_fp32_head_leaves_next_to_nothing() -> None:
    model = peaked_model().to(torch.bfloat16)
    hidden = decoder_of(model)(input_ids=torch.arange(64)[None]).last_hidden_state
    exact = (hidden.double() @ model.lm_head.weight.double().T).log_softmax(dim=-1)
    off = {head: float((Head(model, fp32=head)(hidden).log_softmax(-1) - exact).abs().mean()) for head in (True, False)}
    assert off[True] < 1e-3 * off[False]


def test_under_autocast_the_head_stays_fp32_when_asked() -> None:
    model = peaked_model()
    tokens = torch.randint(0, 512, (4, 6), generator=torch.Generator().manual_seed(1))
    rows = Rows([[1, 2, 3]], 4, tokens, torch.ones_like(tokens, dtype=torch.bool))
    exact = Scorer(model, temperature=1.0, fp32_head=True)(rows)[0]
    off = {
        head: Scorer(model, temperature=1.0, fp32_head=head, autocast=True)(rows)[0] - exact for head in (False, True)
    }
    assert 0 < off[True].abs().mean() < off[False].abs().mean()
