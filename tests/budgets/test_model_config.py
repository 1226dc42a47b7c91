from dataclasses import replace
from typing import Any

import pytest

from budgets import catalogue
from budgets.errors import InputError
from budgets.model_config import shape_from_config
from tests.budgets.workloads import DENSE

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
