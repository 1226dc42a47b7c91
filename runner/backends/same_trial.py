"""Whether a checkpoint belongs to the trial that is to go on."""

from collections.abc import Iterator
from typing import Any

from budgets.errors import InputError


def compare(saved: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """Refuse another trial's checkpoint; another machine's is taken, with a note that the last bits may differ."""
    changed = [
        f"{key} was {saved_value!r} and is {given_value!r}"
        for key, saved_value, given_value in _differences(saved, given)
        if not key.startswith("machine.")
    ]
    if changed:
        raise InputError(
            f"the checkpoint is of another configuration: {'; '.join(changed)}. Resume with the one that it was "
            "started with, or start anew in another folder"
        )
    return [
        f"{key} was {saved_value!r} and is {given_value!r}: the run goes on, but not bit for bit"
        for key, saved_value, given_value in _differences(saved, given)
    ]


_WORDS = ("recipe.sources", "recipe.summary")  # what a recipe says of itself changes nothing that is computed


def _differences(saved: dict[str, Any], given: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for key in sorted(saved.keys() | given.keys()):
        old, new = saved.get(key), given.get(key)
        if f"{prefix}{key}" in _WORDS:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key}", old, new
