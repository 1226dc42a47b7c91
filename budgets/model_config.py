"""Reads the shape of a model from a Hugging Face config.json, and says what of it is priced as something simpler."""

from collections.abc import Mapping
from typing import Any

from budgets.errors import InputError
from budgets.models import ModelShape

Table = Mapping[str, Any]

# Keys that tell of something which is not priced as what it is.
APPROXIMATED = {
    "vision_config": "the vision tower is not priced",
    "index_topk": "sparse attention is priced as attention to all tokens",
    "quantization_config": "quantised weights are priced as bf16",
    "mamba_d_state": "state-space layers are priced as attention",
    "ssm_cfg": "state-space layers are priced as attention",
}


def shape_from_config(name: str, config: Table) -> ModelShape:
    """Read the shape from the keys of a Hugging Face config.json."""
    text = config.get("text_config", config)
    try:
        return _shape(name, config, text)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError) as error:
        raise InputError(
            f"the config of model '{name}' has no usable {error}: a decoder-only config.json with hidden_size, "
            "num_hidden_layers, num_attention_heads, intermediate_size, vocab_size and "
            "max_position_embeddings is needed"
        ) from error


def _shape(name: str, config: Table, text: Table) -> ModelShape:
    hidden, heads = int(text["hidden_size"]), int(text["num_attention_heads"])
    experts = int(text.get("num_local_experts") or text.get("num_experts") or text.get("n_routed_experts") or 0)
    if "hybrid_override_pattern" in text:
        layers = _state_space_layers(text, hidden)
    else:
        count = int(text["num_hidden_layers"])
        dense = int(text.get("first_k_dense_replace") or len(text.get("mlp_only_layers") or ())) if experts else 0
        layers = {
            "layers": count,
            "dense_layers": dense,
            "intermediate": 0 if experts and not dense else int(text["intermediate_size"]),
            **_layer_kinds(text, count, hidden),
        }
    return ModelShape(
        name=name,
        hidden=hidden,
        heads=heads,
        vocabulary=int(text["vocab_size"]),
        context=int(text["max_position_embeddings"]),
        tied_embeddings=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", True))),
        experts=experts,
        experts_per_token=int(text.get("num_experts_per_tok") or 0),
        approximated="; ".join(
            dict.fromkeys(note for key, note in APPROXIMATED.items() if text.get(key) or config.get(key))
        ),
        **_attention(text, hidden, heads),
        **{
            "expert_intermediate": _expert_intermediate(text) if experts else 0,
            "shared_intermediate": _shared_intermediate(text) if experts else 0,
            **layers,
        },
    )


def _attention(text: Table, hidden: int, heads: int) -> dict[str, int]:
    """Read plain grouped-query attention, or latent attention where keys and values are made from a short vector."""
    kv_heads = int(text.get("num_key_value_heads") or heads)
    if text.get("kv_lora_rank"):
        latent, rotary = int(text["kv_lora_rank"]), int(text["qk_rope_head_dim"])
        key, value = int(text["qk_nope_head_dim"]), int(text["v_head_dim"])
        short = int(text.get("q_lora_rank") or 0)
        queries = heads * (key + rotary)
        made = hidden * short + short * queries if short else hidden * queries
        weights = made + hidden * (latent + rotary) + latent * heads * (key + value) + heads * value * hidden
        # Keys and values differ in width: the operations follow their mean.
        return {
            "kv_heads": kv_heads,
            "head_dim": (key + rotary + value) // 2,
            "latent_width": latent + rotary,
            "attention_weights": weights,
        }
    head_dim = int(text.get("head_dim") or hidden // heads)
    gated = text.get("attn_output_gate", text.get("model_type") == "qwen3_next")
    weights = hidden * head_dim * (3 * heads + 2 * kv_heads) if gated else 0
    return {"kv_heads": kv_heads, "head_dim": head_dim, "attention_weights": weights}


def _layer_kinds(text: Table, layers: int, hidden: int) -> dict[str, int]:
    """Count the layers with a sliding window and those of linear attention."""
    kinds = text.get("layer_types")
    for key, other in (("full_attention_interval", "linear"), ("sliding_window_pattern", "sliding")):
        if kinds is None and (every := int(text.get(key) or 0)):
            kinds = [f"{other if (place + 1) % every else 'full'}_attention" for place in range(layers)]
    window = int(text.get("sliding_window") or 0) if text.get("use_sliding_window", True) else 0
    if kinds is None:
        return {"window": window, "window_layers": layers if window else 0}
    windowed, linear = kinds.count("sliding_attention") if window else 0, kinds.count("linear_attention")
    layer_counts = {"window": window if windowed else 0, "window_layers": windowed}
    if not linear:
        return layer_counts
    keys = int(text["linear_num_key_heads"]) * int(text["linear_key_head_dim"])
    values = int(text["linear_num_value_heads"]) * int(text["linear_value_head_dim"])
    # Queries, keys, values, the output's gate and projection, and two numbers per head that steer forgetting.
    weights = hidden * (2 * keys + 3 * values + 2 * int(text["linear_num_value_heads"]))
    state = values * int(text["linear_key_head_dim"])
    return {**layer_counts, "linear_layers": linear, "linear_weights": weights, "linear_state": state}


def _state_space_layers(text: Table, hidden: int) -> dict[str, int]:
    """Read layers that are either a mixer or a feed-forward (Nemotron-H), paired as in other transformers.

    Its feed-forward has two matrices in place of three: the widths are such that the weights come out right.
    """
    pattern = str(text["hybrid_override_pattern"])
    mamba, attention = pattern.count("M"), pattern.count("*")
    experts, dense = pattern.count("E"), pattern.count("-")
    layers, feed_forward = mamba + attention, experts or dense
    inner = int(text["mamba_num_heads"]) * int(text["mamba_head_dim"])
    groups, state = int(text["n_groups"]), int(text["ssm_state_size"])
    weights = hidden * (2 * inner + 2 * groups * state + int(text["mamba_num_heads"])) + inner * hidden
    spread = 2 * feed_forward / (3 * layers)
    widths = {"intermediate": 0} if experts else {"intermediate": round(spread * int(text["intermediate_size"]))}
    if experts:
        widths["expert_intermediate"] = round(spread * _expert_intermediate(text))
        widths["shared_intermediate"] = round(spread * int(text.get("moe_shared_expert_intermediate_size") or 0))
    return {
        "layers": layers,
        "linear_layers": mamba,
        "linear_weights": weights,
        "linear_state": inner * state,
        **widths,
    }


def _expert_intermediate(text: Table) -> int:
    return int(text.get("moe_intermediate_size") or text["intermediate_size"])


def _shared_intermediate(text: Table) -> int:
    if text.get("shared_expert_intermediate_size"):
        return int(text["shared_expert_intermediate_size"])
    if text.get("model_type") == "llama4_text":
        return int(text["intermediate_size"])
    return int(text.get("n_shared_experts") or 0) * int(text.get("moe_intermediate_size") or 0)
