"""What decoding has to know of a transformers model, read from its class and its configuration."""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from budgets.errors import InputError
from runner.policy.model import cache_argument, decoder_of

if TYPE_CHECKING:
    import torch
    from torch import nn

_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
_REMEDY = "use the vLLM engine for it"


@dataclass(frozen=True, slots=True)
class Traits:
    """What of a model changes how it is decoded."""

    longest: int | None  # prompt and response; None: no limit is stated
    window: int | None  # keys that the narrowest layer sees; None: all
    bytes_per_token: int  # of keys and values in all layers
    takes_positions: bool
    cache_argument: str
    mask: "torch.dtype | None"  # format of a mask that attention takes as it is; None: the model must make its own

    @classmethod
    def of(cls, model: "nn.Module") -> "Traits":
        """Read a model's traits; InputError says why it cannot be decoded here."""
        config = _decodable(model)
        parameters = inspect.signature(decoder_of(model).forward).parameters
        layers = getattr(config, "layer_types", None)
        widths = [
            getattr(config, key, None)
            for key, kind in (("sliding_window", "sliding_attention"), ("attention_chunk_size", "chunked_attention"))
            if layers is None or kind in layers
        ]
        heads: int = config.num_attention_heads
        kv_heads: int = getattr(config, "num_key_value_heads", None) or heads
        size: int = getattr(config, "head_dim", None) or config.hidden_size // heads
        takes_positions = "position_ids" in parameters
        return cls(
            longest=getattr(config, "max_position_embeddings", None),
            window=min((width for width in widths if width is not None), default=None),
            bytes_per_token=2 * config.num_hidden_layers * kv_heads * size * int(cast(Any, model).dtype.itemsize),
            takes_positions=takes_positions,
            cache_argument=cache_argument(decoder_of(model)),
            mask=_mask_format(model) if takes_positions else None,
        )


def _decodable(model: Any) -> Any:
    """Return the configuration of the language model inside, refusing what keeps more than keys and values."""
    name, config = type(model).__name__, model.config.get_text_config()
    others = sorted(set(getattr(config, "layer_types", None) or ()) - _LAYERS)
    if others or getattr(model, "_is_stateful", False):
        kinds = ", ".join(others) or "a recurrent state"
        raise InputError(f"{name} has {kinds}: the torch engine decodes attention layers only ({_REMEDY})")
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{name} is an encoder-decoder: the torch engine decodes decoder-only models")
    if getattr(config, "num_kv_shared_layers", 0):
        raise InputError(f"{name} shares keys and values between layers, which the torch engine cannot ({_REMEDY})")
    return config


def _mask_format(model: Any) -> "torch.dtype | None":
    """Return the format of a ready four-dimensional mask, which spares the model making one for every token."""
    import torch

    if not getattr(model, "_supports_attention_backend", False):
        return None
    formats: dict[str, torch.dtype] = {"sdpa": torch.bool, "eager": model.dtype}
    return formats.get(model.config.get_text_config()._attn_implementation)
