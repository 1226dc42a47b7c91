"""A model by its name on the Hugging Face hub, of which we read the small files; its trainer loads the weights."""

import re
from pathlib import Path

from budgets.errors import InputError

_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")  # such as Qwen/Qwen3-8B
_SMALL = ("*.json", "*.jinja", "*.model", "*.txt")  # configuration and tokenizer, no weights


def is_hub_name(name: str | None) -> bool:
    """Whether this names something on the hub, and no path that is there."""
    return name is not None and _NAME.fullmatch(name) is not None and not Path(name).expanduser().exists()


def model_files(model: str) -> Path:
    """Return the folder with a model's configuration and tokenizer: its own, or what the hub's cache has or fetches."""
    if not is_hub_name(model):
        return Path(model).expanduser().absolute()
    from huggingface_hub import snapshot_download  # noqa: PLC0415  (a second)

    reason = ""
    for cached in (True, False):
        try:
            folder = Path(snapshot_download(model, allow_patterns=list(_SMALL), local_files_only=cached))
        except (OSError, ValueError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            continue
        if (folder / "config.json").is_file():
            return folder
    raise InputError(
        f"model '{model}' is no folder here, and its tokenizer cannot be had from the Hugging Face hub ({reason}): "
        "give a folder that holds it, or run `hf download` where the hub can be reached"
    )
