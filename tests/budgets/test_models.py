from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import catalogue
from budgets.errors import InputError
from budgets.models import ModelShape

TINY = ModelShape("tiny", 64, 2, 4, 2, 16, 128, 100, 512, tied_embeddings=True)


def with_look_up_table(shape: ModelShape) -> int:
    """Count a token's active weights as model cards do, with the embedding table."""
    return shape.matmul_parameters + (0 if shape.tied_embeddings else shape.vocabulary * shape.hidden)


PUBLISHED = """
qwen2.5-0.5b 0.494, qwen2.5-1.5b 1.54, qwen2.5-3b 3.09, qwen2.5-7b 7.62, qwen2.5-14b 14.77, qwen2.5-32b 32.76,
qwen2.5-72b 72.7, qwen3-0.6b 0.596, qwen3-1.7b 1.72, qwen3-4b 4.02, qwen3-8b 8.19, qwen3-14b 14.77,
qwen3-32b 32.76, qwen3-30b-a3b 30.5, llama-3.2-1b 1.236, llama-3.2-3b 3.213, llama-3.1-8b 8.03,
llama-3.1-70b 70.6, r1-distill-qwen-1.5b 1.777, qwen3-235b-a22b 235.1, qwen3-next-80b-a3b 79.7, qwen3.5-9b 8.95,
deepseek-v3 671.0, kimi-k2 1026.0, moonlight-16b-a3b 15.96, gpt-oss-20b 20.9, gpt-oss-120b 116.8, glm-4.5 353.0,
glm-4.5-air 106.9, gemma-3-4b 3.88, gemma-3-27b 27.0, mistral-small-24b 23.57, mixtral-8x7b 46.7,
nemotron-nano-9b-v2 8.89, nemotron-3-nano-30b-a3b 31.6, qwen3.5-0.8b 0.752, qwen3.5-4b 4.205, qwen3.5-27b 26.9,
gemma-2-9b 9.24, llama-2-7b 6.74, deepseek-llm-7b 6.91, deepseek-coder-6.7b 6.74, phi-4 14.66, smollm2-135m 0.1345,
smollm2-1.7b 1.711, smollm3-3b 3.075, olmo-2-7b 7.3, glm-4-9b 9.4
"""  # billions of parameters, as the model cards have them


@pytest.mark.parametrize("card", PUBLISHED.split(","), ids=str.strip)
def test_parameters_are_the_published_ones(card: str) -> None:
    name, billions = card.split()
    # Biases and the norms inside attention are left out, and the model cards round: half a percent.
    assert catalogue.model(name).parameters / 1e9 == pytest.approx(float(billions), rel=0.005)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen3-30b-a3b", 3.3),
        ("qwen3-235b-a22b", 22),
        ("deepseek-v3", 37),
        ("gpt-oss-120b", 5.7),
        ("llama-4-scout", 17),
    ],
)
def test_a_mixture_of_experts_multiplies_only_its_active_experts(name: str, billions: float) -> None:
    assert with_look_up_table(catalogue.model(name)) / 1e9 == pytest.approx(billions, rel=0.03)


def test_the_count_by_hand() -> None:
    shape = TINY
    attention, feed_forward, norms = 64 * 64 * 2 + 64 * 32 * 2, 3 * 64 * 128, 2 * 64
    body, embedding = 2 * (attention + feed_forward + norms), 100 * 64
    assert shape.parameters == body + embedding
    assert replace(shape, tied_embeddings=False).parameters == body + 2 * embedding
    assert shape.matmul_parameters == body + embedding
    assert shape.weight_bytes == 2 * shape.parameters
    assert shape.cache_bytes(1) == 2 * 2 * 2 * 16 * 2
    assert shape.heads * shape.head_dim == 64


@given(tokens=st.floats(1, 1e4), factor=st.floats(1, 10))
def test_a_larger_batch_touches_more_experts(tokens: float, factor: float) -> None:
    shape = catalogue.model("qwen3-30b-a3b")
    few, many = shape.weights_read(tokens), shape.weights_read(tokens * factor)
    assert shape.matmul_parameters * (1 - 1e-9) <= few <= many <= shape.parameters
    dense = catalogue.model("qwen3-8b")
    assert dense.weights_read(tokens) == dense.matmul_parameters


def test_expected_experts_of_a_batch_against_monte_carlo() -> None:
    shape, tokens = catalogue.model("qwen3-30b-a3b"), 12
    rng = np.random.default_rng(5)
    touched = [np.unique(np.concatenate([rng.permutation(128)[:8] for _ in range(tokens)])).size for _ in range(2000)]
    one_expert = 3 * shape.hidden * shape.expert_intermediate * shape.layers
    rest = shape.matmul_parameters - 8 * one_expert
    assert shape.weights_read(tokens) == pytest.approx(rest + np.mean(touched) * one_expert, rel=0.01)


def test_a_window_holds_no_more_than_its_tokens() -> None:
    plain, windowed = TINY, replace(TINY, window=50, window_layers=1)
    token = 2 * 2 * 16 * 2  # keys and values of one layer
    assert plain.cache_bytes(200) == 200 * plain.cache_bytes(1) == 200 * 2 * token
    assert windowed.cache_bytes(200) == (200 + 50) * token
    assert windowed.cache_bytes(30) == plain.cache_bytes(30)
    assert windowed.attention_flops(30, 900) == plain.attention_flops(30, 900)
    # By hand: the layer with a window multiplies 50 · 200 − 50²/2 pairs instead of 200²/2, at 4 operations each.
    assert windowed.attention_flops(200, 200**2) == 4 * 64 * (200**2 / 2 + 50 * 200 - 50**2 / 2)


def test_a_linear_layer_holds_the_same_however_long_the_sequence() -> None:
    linear = replace(TINY, linear_layers=1, linear_weights=1000, linear_state=300)
    assert linear.cache_bytes(200) - linear.cache_bytes(100) == TINY.cache_bytes(1) / 2 * 100
    assert linear.cache_bytes(0) == 2 * 300
    assert linear.attention_flops(200, 200**2) == TINY.attention_flops(200, 200**2) / 2 + 4 * 300 * 200
    assert TINY.parameters - linear.parameters == 64 * 16 * (2 * 4 + 2 * 2) - 1000


def test_latent_attention_caches_a_tenth_of_what_heads_would() -> None:
    deepseek = catalogue.model("deepseek-v3")
    assert deepseek.cache_bytes(1000) == 1000 * 61 * 576 * 2  # as its report says: 70 kB a token
    assert deepseek.cache_bytes(1000) < 0.1 * replace(deepseek, latent_width=0).cache_bytes(1000)


@pytest.mark.parametrize("change", [{"window_layers": 3}, {"dense_layers": 3}, {"linear_layers": -1}])
def test_parts_of_the_layers_are_at_most_all_of_them(change: dict[str, int]) -> None:
    with pytest.raises(InputError, match="are parts of its 2 layers"):
        replace(TINY, **change)
