"""Writing a base model and its measured pass rates to where the packages ship them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def ship(model: Any, folder: Path) -> None:
    """Save the model as a Hugging Face checkpoint in FP16: half the size, and the rounding is harmless."""
    import torch  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.float16).save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes for the owner alone


def write_pass_rates(rates: Sequence[float], samples: int, task: str, file: Path) -> None:
    """Write one rate a line, in the order of the train problems."""
    head = f"# {task}: avg@{samples} of the base model on each train problem, at temperature 1"
    lines = [f"{rate:.4f}" for rate in rates]
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
