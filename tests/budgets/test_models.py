from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import catalogue
from budgets.errors import InputError
from budgets.models import ModelShape, shape_from_config

DENSE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}


def with_look_up_table(shape: ModelShape) -> int:
    """Count a token's active weights as model cards do, with the embedding table."""
    return shape.matmul_parameters + (0 if shape.tied_embeddings else shape.vocabulary * shape.hidden)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen2.5-0.5b", 0.494),
        ("qwen2.5-1.5b", 1.54),
        ("qwen2.5-3b", 3.09),
        ("qwen2.5-7b", 7.62),
        ("qwen2.5-14b", 14.77),
        ("qwen2.5-32b", 32.76),
        ("qwen2.5-72b", 72.7),
        ("qwen3-0.6b", 0.596),
        ("qwen3-1.7b", 1.72),
        ("qwen3-4b", 4.02),
        ("qwen3-8b", 8.19),
        ("qwen3-14b", 14.77),
        ("qwen3-32b", 32.76),
        ("qwen3-30b-a3b", 30.5),
        ("llama-3.2-1b", 1.236),
        ("llama-3.2-3b", 3.213),
        ("llama-3.1-8b", 8.03),
        ("llama-3.1-70b", 70.6),
    ],
)
def test_parameters_are_the_published_ones(name: str, billions: float) -> None:
    # Biases and the norms inside attention are left out, and the model cards round: half a percent.
    assert catalogue.model(name).parameters / 1e9 == pytest.approx(billions, rel=0.005)


def test_parameters_of_scout_are_the_published_ones() -> None:
    scout = catalogue.model("llama-4-scout")
    # The cards say 109B and 17B in all, of which the vision tower is about 1B: two percent.
    assert scout.parameters / 1e9 == pytest.approx(109, rel=0.02)
    assert with_look_up_table(scout) / 1e9 == pytest.approx(17, rel=0.02)


def test_a_mixture_of_experts_multiplies_only_its_active_experts() -> None:
    assert with_look_up_table(catalogue.model("qwen3-30b-a3b")) / 1e9 == pytest.approx(3.3, rel=0.02)


def test_the_count_by_hand() -> None:
    shape = shape_from_config("tiny", DENSE)
    attention, feed_forward, norms = 64 * 64 * 2 + 64 * 32 * 2, 3 * 64 * 128, 2 * 64
    body, embedding = 2 * (attention + feed_forward + norms), 100 * 64
    assert shape.parameters == body + embedding  # configs leave the key out when the embeddings are tied
    assert replace(shape, tied_embeddings=True).parameters == body + embedding
    assert shape.matmul_parameters == body + embedding
    assert shape.weight_bytes == 2 * shape.parameters
    assert shape.kv_bytes_per_token == 2 * 2 * 2 * 16 * 2
    assert shape.attention_width == 64


def test_a_dense_model_reads_all_its_weights_for_any_batch() -> None:
    shape = catalogue.model("qwen3-8b")
    assert shape.weights_read(1) == shape.weights_read(1000) == shape.matmul_parameters


@given(tokens=st.floats(1, 1e4), factor=st.floats(1, 10))
def test_a_larger_batch_touches_more_experts(tokens: float, factor: float) -> None:
    shape = catalogue.model("qwen3-30b-a3b")
    few, many = shape.weights_read(tokens), shape.weights_read(tokens * factor)
    assert shape.matmul_parameters * (1 - 1e-9) <= few <= many <= shape.parameters


def test_expected_experts_of_a_batch_against_monte_carlo() -> None:
    import numpy as np

    shape, tokens = catalogue.model("qwen3-30b-a3b"), 12
    rng = np.random.default_rng(5)
    touched = [np.unique(np.concatenate([rng.permutation(128)[:8] for _ in range(tokens)])).size for _ in range(2000)]
    one_expert = 3 * shape.hidden * shape.expert_intermediate * shape.layers
    rest = shape.matmul_parameters - 8 * one_expert
    assert shape.weights_read(tokens) == pytest.approx(rest + np.mean(touched) * one_expert, rel=0.01)


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


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_mixtures_of_experts_by_any_of_their_keys(key: str) -> None:
    shape = shape_from_config("moe", {**DENSE, key: 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32})
    assert (shape.experts, shape.experts_per_token, shape.expert_intermediate) == (8, 2, 32)
    assert (shape.intermediate, shape.shared_intermediate) == (0, 0)


@pytest.mark.parametrize(
    ("change", "expert", "shared"),
    [
        ({}, 128, 0),
        ({"moe_intermediate_size": 32, "n_shared_experts": 2}, 32, 64),
        ({"moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}, 32, 48),
        ({"model_type": "llama4_text"}, 128, 128),
    ],
)
def test_sizes_of_routed_and_shared_experts(change: dict[str, Any], expert: int, shared: int) -> None:
    shape = shape_from_config("moe", {**DENSE, "num_experts": 8, "num_experts_per_tok": 2, **change})
    assert (shape.expert_intermediate, shape.shared_intermediate) == (expert, shared)


def test_a_nested_text_config_is_read() -> None:
    nested = {"model_type": "vision", "tie_word_embeddings": True, "text_config": DENSE}
    assert shape_from_config("nested", nested) == replace(shape_from_config("nested", DENSE), tied_embeddings=True)


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
    "key",
    [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
    ],
)
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(InputError, match=rf"model 'tiny' has no usable '{key}'"):
        shape_from_config("tiny", {k: v for k, v in DENSE.items() if k != key})


@pytest.mark.parametrize(
    "config",
    [
        {**DENSE, "hidden_size": "wide"},
        {**DENSE, "vocab_size": None},
        {**DENSE, "num_attention_heads": 0},
        {"text_config": [1, 2]},
        {"text_config": "text"},
    ],
)
def test_values_of_the_wrong_kind_name_the_model(config: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"model 'tiny' has no usable .*a decoder-only config.json with hidden_size"):
        shape_from_config("tiny", config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 0}, "model 'tiny': layers is 0, it must be positive"),
        ({"vocab_size": -1}, "model 'tiny': vocabulary is -1, it must be positive"),
        ({"num_experts": 8}, "experts_per_token is 0, it must lie between 1 and the number of experts, 8"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "experts_per_token is 9"),
    ],
)
def test_shapes_that_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        shape_from_config("tiny", {**DENSE, **change})
