"""A local Hugging Face checkpoint as a model ready to be trained or sampled."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgets.errors import InputError

if TYPE_CHECKING:
    from torch import nn


def load_model(path: str, *, weights: str = "float32", device: str = "cpu") -> "nn.Module":
    """Load a causal language model from a local folder; nothing is ever downloaded."""
    require_checkpoint(path)
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, PreTrainedModel  # noqa: PLC0415
    from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415

    disable_progress_bar()  # a bar for every load would tear what a person looks at

    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("machine.device is 'cuda', but torch sees no GPU here: set it to 'cpu', or check the driver")
    model: Any = AutoModelForCausalLM.from_pretrained(
        path, dtype=getattr(torch, weights), local_files_only=True, attn_implementation="sdpa"
    )
    if not isinstance(model, PreTrainedModel):
        raise InputError(f"model {path} is no language model of transformers: it loaded as {type(model).__name__}")
    loaded: nn.Module = model.to(device).eval()  # dropout would make log-probabilities differ from the sampler's
    return loaded


def require_checkpoint(path: str) -> dict[str, Any]:
    """Return the checkpoint's config.json, or say what is missing."""
    folder = Path(path).expanduser()
    file = folder / "config.json"
    if not file.is_file():
        raise InputError(
            f"model '{path}' is no local checkpoint: {file} is missing. Give the folder that holds config.json and "
            "model.safetensors; models are not downloaded"
        )
    if not any(folder.glob("*.safetensors")):
        raise InputError(f"model '{path}' holds no *.safetensors: save it with save_pretrained(…), safe_serialization")
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"model '{path}': {file} is not JSON ({error})") from error
    return config
