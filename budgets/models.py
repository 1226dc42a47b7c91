"""The shape of a transformer, and the parameters, bytes and operations that follow from it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from budgets.errors import InputError

BYTES_PER_WEIGHT = 2


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only transformer with grouped-query attention and a gated feed-forward, dense or with experts."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context: int
    tied_embeddings: bool
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0

    def __post_init__(self) -> None:
        for quantity in ("hidden", "layers", "heads", "kv_heads", "head_dim", "vocabulary", "context"):
            if getattr(self, quantity) < 1:
                raise InputError(f"model '{self.name}': {quantity} is {getattr(self, quantity)}, it must be positive")
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise InputError(
                f"model '{self.name}': experts_per_token is {self.experts_per_token}, "
                f"it must lie between 1 and the number of experts, {self.experts}"
            )

    @property
    def parameters(self) -> int:
        """All weights, the output head counted once more unless it is tied."""
        embeddings = self.vocabulary * self.hidden * (1 if self.tied_embeddings else 2)
        return embeddings + self._body_parameters(self.experts)

    @property
    def matmul_parameters(self) -> int:
        """Weights that one token is multiplied with: the active experts and the output head, no look-up table."""
        return self._body_parameters(self.experts_per_token) + self.vocabulary * self.hidden

    def weights_read(self, tokens: float) -> float:
        """Return the weights read to process so many tokens at once; a batch touches more experts than a token."""
        if not self.experts:
            return float(self.matmul_parameters)
        untouched = math.pow(1 - self.experts_per_token / self.experts, tokens)
        touched = self.experts * (1 - untouched)
        body = self._body_parameters(0)
        return body + self.layers * touched * self._expert_parameters + self.vocabulary * self.hidden

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights in bf16."""
        return self.parameters * BYTES_PER_WEIGHT

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values that one token leaves in the cache, in bf16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * BYTES_PER_WEIGHT

    @property
    def attention_width(self) -> int:
        """Width over all heads, which the attention's operations are counted with."""
        return self.heads * self.head_dim

    @property
    def _expert_parameters(self) -> int:
        return 3 * self.hidden * self.expert_intermediate

    def _body_parameters(self, experts: int) -> int:
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        dense = 3 * self.hidden * (self.intermediate + self.shared_intermediate)
        router = self.hidden * self.experts
        norms = 2 * self.hidden
        return self.layers * (attention + dense + router + norms + experts * self._expert_parameters)


def shape_from_config(name: str, config: Mapping[str, Any]) -> ModelShape:
    """Read the shape from the keys of a Hugging Face config.json."""
    text = config.get("text_config", config)
    try:
        hidden, heads = int(text["hidden_size"]), int(text["num_attention_heads"])
        experts = int(text.get("num_local_experts") or text.get("num_experts") or text.get("n_routed_experts") or 0)
        return ModelShape(
            name=name,
            hidden=hidden,
            layers=int(text["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=int(text.get("head_dim") or hidden // heads),
            intermediate=0 if experts else int(text["intermediate_size"]),
            vocabulary=int(text["vocab_size"]),
            context=int(text["max_position_embeddings"]),
            tied_embeddings=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", True))),
            experts=experts,
            experts_per_token=int(text.get("num_experts_per_tok") or 0),
            expert_intermediate=int(text.get("moe_intermediate_size") or text["intermediate_size"]) if experts else 0,
            shared_intermediate=_shared_intermediate(text, experts),
        )
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError(
            f"the config of model '{name}' has no usable {error}: a decoder-only config.json with hidden_size, "
            "num_hidden_layers, num_attention_heads, intermediate_size, vocab_size and "
            "max_position_embeddings is needed"
        ) from error


def _shared_intermediate(text: Mapping[str, Any], experts: int) -> int:
    if not experts:
        return 0
    if text.get("shared_expert_intermediate_size"):
        return int(text["shared_expert_intermediate_size"])
    if text.get("model_type") == "llama4_text":
        return int(text["intermediate_size"])
    return int(text.get("n_shared_experts") or 0) * int(text.get("moe_intermediate_size") or 0)
