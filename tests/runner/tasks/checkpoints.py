"""A checkpoint with a real tokenizer of a few words, without weights that could be run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = ["<unk>", "<eos>", "<user>", "<model>", "<turn>", "<pad>", "what", "is", "2", "+", "4", "probe", "be", "brief"]
IDS = {word: id_ for id_, word in enumerate(WORDS)}
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{{ '<user> ' if m.role == 'user' else '<model> ' }}{{ m.content }}{{ ' <turn> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<model>' }}{% endif %}"
)


def save_on_the_hub(cache: Path, name: str, **values: Any) -> Path:
    """Lay a model without weights into a cache of the Hugging Face hub, as if it had been downloaded."""
    place = cache / f"models--{name.replace('/', '--')}"
    folder = place / "snapshots" / "0123"
    save_checkpoint(folder, **values)
    (folder / "model.safetensors").unlink()
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0123")
    return folder


def save_checkpoint(
    folder: Path,
    *,
    template: str | None = TEMPLATE,
    ends: int | Sequence[int] | None = (1, 4),
    own_end: str | None = "<eos>",
    pad: str | None = "<pad>",
    context: int = 32,
) -> str:
    backend = Tokenizer(models.WordLevel(IDS, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special: dict[str, Any] = {"eos_token": own_end, "pad_token": pad}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        additional_special_tokens=["<user>", "<model>", "<turn>"],
        **{name: token for name, token in special.items() if token},
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    config: dict[str, Any] = {"model_type": "llama", "max_position_embeddings": context, "vocab_size": len(WORDS)}
    config |= {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
    (folder / "config.json").write_text(json.dumps(config))
    if ends is not None:
        declared = ends if isinstance(ends, int) else list(ends)
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": declared}))
    (folder / "model.safetensors").write_bytes(b"")
    return str(folder)
