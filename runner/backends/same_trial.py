"""Whether a folder is free for a new trial, and whether a checkpoint belongs to the trial that is to go on."""

from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.layering import flattened
from runner.training import checkpoints

# What a recipe says of itself changes nothing that is computed.
_WORDS = ("recipe.sources", "recipe.summary")


def require_free(folder: Path) -> None:
    """Refuse a folder that holds a trial already."""
    if checkpoints.exists(folder):
        raise InputError(f"{folder} holds checkpoints of a trial already: resume it, or give another folder")


def compare(saved: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """Refuse another trial's checkpoint; another machine's is taken, with a note that the last bits may differ."""
    old, new = dict(flattened(saved)), dict(flattened(given))
    differences = {
        key: f"{key} was {old.get(key)!r} and is {new.get(key)!r}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not key.startswith(_WORDS)
    }
    changed = [text for key, text in differences.items() if not key.startswith("machine.")]
    if changed:
        raise InputError(
            f"the checkpoint is of another configuration: {'; '.join(changed)}. Resume with the one that it was "
            "started with, or start anew in another folder"
        )
    return [f"{text}: the run goes on, but not bit for bit" for text in differences.values()]
