"""What the script or configuration of a run says of it: the settings, and what decides its time, memory and end.

Nothing of a script is executed: shell is read by planner/adopting/shell.py, Python by its syntax tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.adopting.configuration import Flat, read_settings
from planner.adopting.settings import GpuSplit, Settings, settings_of, split_of
from planner.adopting.values import values_of
from planner.logs.trainers import load_trainer, trainer_names

_ENOUGH = 3  # keys by which a trainer is known without its entry point


@dataclass(frozen=True)
class ScriptFacts:
    """What a script says of a run; None, or no entry, where it does not say."""

    trainer: str | None
    settings: Settings
    split: GpuSplit
    values: Mapping[str, Any] = field(default_factory=dict)  # our names beyond Settings: planner/logs/trainers
    keys: Mapping[str, str] = field(default_factory=dict)  # our names, and the trainer's key or flag that said it
    assumed: Mapping[str, Any] = field(default_factory=dict)  # our names, and the trainer's default that was taken
    unresolved: tuple[str, ...] = ()  # variables and files that could not be found


def read_script(paths: Sequence[Path]) -> ScriptFacts:
    """Read what people start a trainer with; of several files the later wins."""
    found: Flat = {}
    for path in paths:
        found |= read_settings(path)
    trainer = _trainer_of(found)
    return facts_of(trainer, found)


def facts_of(trainer: str | None, found: Flat, unresolved: Sequence[str] = ()) -> ScriptFacts:
    """Return what a configuration says, by the keys of its trainer."""
    settings = settings_of(trainer, found, whole=True)
    split = split_of(trainer, found, settings.rollouts_per_prompt, settings.prompts_per_batch, whole=True)
    values, keys, assumed = values_of(trainer, found, settings, split)
    return ScriptFacts(trainer, settings, split, values, keys, assumed, tuple(unresolved))


def _trainer_of(found: Flat) -> str | None:
    """Return the trainer most of whose keys are there."""
    counts = {
        name: sum(key in found for keys in load_trainer(name).keys.values() for key in keys) for name in trainer_names()
    }
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= _ENOUGH else None
