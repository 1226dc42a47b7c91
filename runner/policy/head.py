"""The decoder and the output head of any causal language model, apart, so that logits are computed only where needed.

Computing logits in FP32 from bf16 hidden states removes most of the mismatch between sampler and trainer
(ScaleRL, arXiv 2510.13786, figure 5b).
"""

from typing import TYPE_CHECKING, Any

from budgets.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn


def decoder_of(model: "nn.Module") -> Any:
    """Return the part of the model that turns tokens into hidden states."""
    decoder = getattr(model, getattr(model, "base_model_prefix", ""), None)
    if decoder is None:
        raise InputError(
            f"a {type(model).__name__} has no decoder apart from its head: give a causal language model, such as "
            "Llama, Qwen or Gemma"
        )
    return decoder


class Head:
    """Hidden states to logits, always returned as FP32; with `fp32` they are also computed so."""

    def __init__(self, model: "nn.Module", *, fp32: bool) -> None:
        language_model: Any = model
        config: Any = language_model.config
        self._layer: Any = language_model.get_output_embeddings()
        self._fp32 = fp32
        self._softcap = getattr(config, "final_logit_softcapping", None)  # Gemma 2 and 3
        self._factor = getattr(config, "logit_scale", None)  # Cohere
        self._divisor = getattr(config, "logits_scaling", None)  # Granite

    def __call__(self, hidden: "Tensor") -> "Tensor":
        """Return the logits of hidden states of any shape (…, width)."""
        import torch  # noqa: PLC0415

        weight, bias = self._layer.weight, getattr(self._layer, "bias", None)
        if self._fp32:
            hidden, weight = hidden.float(), weight.float()
            bias = None if bias is None else bias.float()
        logits = torch.nn.functional.linear(hidden, weight, bias).float()
        if self._factor:
            logits = logits * self._factor
        if self._divisor:
            logits = logits / self._divisor
        if self._softcap:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        return logits
