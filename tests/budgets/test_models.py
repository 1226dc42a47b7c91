from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import catalogue
from budgets.errors import InputError
from budgets.model_config import shape_from_config
from budgets.models import ModelShape
from tests.budgets.workloads import DENSE, TINY


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
smollm2-1.7b 1.711, smollm3-3b 3.075, olmo-2-7b 7.3, glm-4-9b 9.4, Qwen/Qwen2-VL-2B-Instruct 2.21,
Qwen/Qwen2.5-VL-3B-Instruct 3.755,
Qwen/Qwen2.5-VL-7B-Instruct 8.29, qwen2.5-vl-32b 33.45, qwen2.5-vl-72b 73.4, Qwen/Qwen3-VL-2B-Thinking 2.128,
qwen3-vl-4b 4.44, qwen3-vl-8b 8.77, qwen3-vl-32b 33.4, qwen3-vl-30b-a3b 31.1, OpenGVLab/InternVL3-1B 0.938,
internvl3-8b 7.94, internvl3-38b 38.4, OpenGVLab/InternVL3_5-8B 8.53, internvl3.5-1b 1.06, internvl3.5-30b-a3b 30.85
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


# Shapes from a config.json


EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({}, "tied_embeddings", True),
        ({"tie_word_embeddings": False}, "tied_embeddings", False),
        ({}, "head_dim", 16),
        ({"head_dim": 128}, "head_dim", 128),
        ({"num_key_value_heads": None}, "kv_heads", 4),
        ({}, "context", 512),
        ({}, "experts", 0),
    ],
)
def test_dense_configs(change: dict[str, Any], field: str, value: object) -> None:
    assert getattr(shape_from_config("tiny", {**DENSE, **change}), field) == value


@pytest.mark.parametrize(
    ("change", "expert", "shared"),
    [
        ({}, 128, 0),
        ({"num_local_experts": 8}, 128, 0),
        ({"n_routed_experts": 8}, 128, 0),
        ({"moe_intermediate_size": 32, "n_shared_experts": 2}, 32, 64),
        ({"moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}, 32, 48),
        ({"model_type": "llama4_text"}, 128, 128),
    ],
)
def test_mixtures_of_experts_by_any_of_their_keys(change: dict[str, Any], expert: int, shared: int) -> None:
    counted = {} if {"num_local_experts", "n_routed_experts"} & change.keys() else {"num_experts": 8}
    shape = shape_from_config("moe", {**DENSE, **counted, "num_experts_per_tok": 2, **change})
    assert (shape.experts, shape.experts_per_token, shape.intermediate) == (8, 2, 0)
    assert (shape.expert_intermediate, shape.shared_intermediate) == (expert, shared)


def test_a_nested_text_config_is_read() -> None:
    nested = {"model_type": "vision", "tie_word_embeddings": True, "text_config": DENSE}
    assert shape_from_config("nested", nested) == replace(shape_from_config("nested", DENSE), tied_embeddings=True)
    seeing = shape_from_config("seeing", {"vision_config": {"depth": 2}, "text_config": DENSE})
    assert seeing.approximated == "the vision tower is not priced"


def test_the_shipped_shape_equals_the_one_of_the_models_own_config() -> None:
    config = {
        "head_dim": 128,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "max_position_embeddings": 40960,
        "moe_intermediate_size": 768,
        "num_attention_heads": 32,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 48,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
        "vocab_size": 151936,
    }
    assert shape_from_config("qwen3-30b-a3b", config) == catalogue.model("qwen3-30b-a3b")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**DENSE, "hidden_size": "wide"}, "has no usable .*a decoder-only config.json with hidden_size"),
        ({**DENSE, "vocab_size": None}, "has no usable"),
        ({**DENSE, "num_attention_heads": 0}, "has no usable"),
        ({key: value for key, value in DENSE.items() if key != "intermediate_size"}, "no usable 'intermediate_size'"),
        ({"text_config": [1, 2]}, "has no usable"),
        ({**DENSE, "num_hidden_layers": 0}, "layers is 0, it must be positive"),
        ({**DENSE, "num_experts": 8}, "experts_per_token is 0, it must lie between 1 and the number of experts, 8"),
        ({**DENSE, "num_experts": 8, "num_experts_per_tok": 9}, "experts_per_token is 9"),
    ],
)
def test_what_cannot_be_read_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=rf"model 'tiny'.* {message}"):
        shape_from_config("tiny", config)


def test_latent_attention_is_counted_by_its_matrices() -> None:
    latent = {"q_lora_rank": 24, "kv_lora_rank": 20, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 12}
    shape = shape_from_config("latent", {**DENSE, **latent})
    assert (shape.latent_width, shape.head_dim) == (24, 12)
    assert shape.attention_weights == 64 * 24 + 24 * 4 * 12 + 64 * 24 + 20 * 4 * (8 + 12) + 4 * 12 * 64
    whole = shape_from_config("latent", {**DENSE, **latent, "q_lora_rank": None})
    assert whole.attention_weights - shape.attention_weights == 64 * 4 * 12 - (64 * 24 + 24 * 4 * 12)


@pytest.mark.parametrize(
    ("change", "window", "layers"),
    [
        ({}, 0, 0),
        ({"sliding_window": 50}, 50, 6),
        ({"sliding_window": None}, 0, 0),
        ({"sliding_window": 50, "use_sliding_window": False}, 0, 0),
        ({"sliding_window": 50, "sliding_window_pattern": 3}, 50, 4),
        ({"sliding_window": 50, "layer_types": ["sliding_attention", "full_attention"] * 3}, 50, 3),
        ({"sliding_window": 50, "layer_types": ["full_attention"] * 6}, 0, 0),
    ],
)
def test_sliding_windows_by_any_of_their_keys(change: dict[str, Any], window: int, layers: int) -> None:
    shape = shape_from_config("windowed", {**DENSE, "num_hidden_layers": 6, **change})
    assert (shape.window, shape.window_layers) == (window, layers)


LINEAR = {
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 8,
}


@pytest.mark.parametrize(
    "kinds", [{"full_attention_interval": 2}, {"layer_types": ["linear_attention", "full_attention"]}]
)
def test_linear_layers_keep_a_state_per_value_head(kinds: dict[str, Any]) -> None:
    shape = shape_from_config("hybrid", {**DENSE, **LINEAR, **kinds})
    assert (shape.linear_layers, shape.linear_state) == (1, 4 * 8 * 8)
    assert shape.linear_weights == 64 * (2 * 16 + 3 * 32 + 2 * 4)


def test_the_first_layers_of_a_mixture_may_be_dense() -> None:
    shape = shape_from_config("moe", {**DENSE, **EXPERTS, "first_k_dense_replace": 1})
    without = shape_from_config("moe", {**DENSE, **EXPERTS})
    assert (shape.dense_layers, shape.intermediate, without.intermediate) == (1, 128, 0)
    # One layer less with a router and eight experts, one more with a plain feed-forward.
    assert without.parameters - shape.parameters == 64 * 8 + 8 * 3 * 64 * 32 - 3 * 64 * 128


def test_state_space_layers_are_paired_with_feed_forwards_of_the_same_weights() -> None:
    pattern = {
        "hybrid_override_pattern": "M-M-*-",
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "n_groups": 2,
        "ssm_state_size": 8,
    }
    shape = shape_from_config("state-space", {**DENSE, "num_hidden_layers": 6, "intermediate_size": 96, **pattern})
    assert (shape.layers, shape.linear_layers, shape.linear_state) == (3, 2, 64 * 8)
    assert 3 * shape.layers * shape.intermediate == pytest.approx(2 * 3 * 96, rel=0.01)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"index_topk": 2048}, "sparse attention is priced as attention to all tokens"),
        ({"quantization_config": {"bits": 4}}, "quantised weights are priced as bf16"),
        ({"model_type": "brand_new", "mamba_d_state": 16}, "state-space layers are priced as attention"),
    ],
)
def test_what_is_approximated_is_said(change: dict[str, Any], said: str) -> None:
    assert shape_from_config("model", {**DENSE, **change}).approximated == said
