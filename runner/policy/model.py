"""The trained model: loading it from a local checkpoint, and its decoder and output head apart.

Logits are computed only where they are needed. Computing them in FP32 from bf16 hidden states removes most of the
mismatch between sampler and trainer (ScaleRL, arXiv 2510.13786, figure 5b).
"""

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgets.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn


def load_model(path: str, *, device: str = "cpu") -> "nn.Module":
    """Load a causal language model from a local folder; nothing is ever downloaded."""
    require_checkpoint(path)
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # a bar for every load would tear what a person looks at

    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("machine.device is 'cuda', but torch sees no GPU here: set it to 'cpu', or check the driver")
    model: Any = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, local_files_only=True, attn_implementation="sdpa"
    )
    if not isinstance(model, PreTrainedModel):
        raise InputError(f"model {path} is no language model of transformers: it loaded as {type(model).__name__}")
    loaded: nn.Module = model.to(device).eval()  # dropout would make log-probabilities differ from the sampler's
    return loaded


def require_checkpoint(path: str, *, weights: bool = True) -> dict[str, Any]:
    """Return the checkpoint's config.json, or say what is missing; its weights may be elsewhere."""
    folder = Path(path).expanduser()
    file = folder / "config.json"
    if not file.is_file():
        raise InputError(
            f"model '{path}' is no local checkpoint: {file} is missing. Give the folder that holds config.json and "
            "model.safetensors; models are not downloaded"
        )
    if weights and not any(folder.glob("*.safetensors")):
        raise InputError(f"model '{path}' holds no *.safetensors: save it with save_pretrained(…), safe_serialization")
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"model '{path}': {file} is not JSON ({error})") from error
    return config


def decoder_of(model: "nn.Module") -> Any:
    """Return the part of the model that turns tokens into hidden states."""
    decoder = getattr(model, getattr(model, "base_model_prefix", ""), None)
    if decoder is None:
        raise InputError(
            f"a {type(model).__name__} has no decoder apart from its head: give a causal language model, such as "
            "Llama, Qwen or Gemma"
        )
    return decoder


def cache_argument(decoder: Any) -> str:
    """Return what a decoder calls its keys and values: `cache`, or in earlier transformers `past_key_values`."""
    return "cache" if "cache" in inspect.signature(decoder.forward).parameters else "past_key_values"


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
        import torch

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
