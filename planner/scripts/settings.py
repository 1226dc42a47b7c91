"""What is known of a run's configuration in our words: its settings, its GPUs, and which key said what."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any

from budgets.errors import InputError
from planner.logs.trainers import Trainer
from planner.scripts.configuration import Flat

_NEEDED = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "model", "gpus")


@dataclass(frozen=True)
class Settings:
    """What a run was configured to do, as far as it is known."""

    rollouts_per_prompt: int | None = None
    prompts_per_batch: int | None = None
    learning_rate: float | None = None
    model: str | None = None
    recipe: str | None = None
    gpus: int | None = None
    seed: int | None = None
    response_tokens: int | None = None  # the most of a response
    validation_samples: int | None = None
    notes: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Return what must be known and is not, by the names of its flags."""
        return [f"--{name.replace('_', '-')}" for name in _NEEDED if getattr(self, name) is None]


SETTINGS = tuple(attribute.name for attribute in fields(Settings) if attribute.name != "notes")


@dataclass(frozen=True, slots=True)
class GpuSplit:
    """How a run's GPUs were used, as far as its settings say; all took turns where they say nothing."""

    generator_gpus: int | None = None  # None: all of them
    engine_gpus: int | None = None  # of one inference engine
    asynchronous: bool = False
    updates: int = 1  # of a batch

    def of(self, gpus: int) -> tuple[int, int, bool]:
        """Return how many of a run's GPUs generated, how many trained, and whether they are the same."""
        if self.generator_gpus is None or not 0 < self.generator_gpus < gpus:
            return gpus, gpus, True
        return self.generator_gpus, gpus - self.generator_gpus, False


@dataclass(frozen=True)
class ScriptFacts:
    """What a configuration says of a run; None, or no entry, where it does not say."""

    trainer: str | None
    settings: Settings
    split: GpuSplit
    values: Mapping[str, Any] = field(default_factory=dict)  # our names beyond Settings: planner/logs/trainers
    keys: Mapping[str, str] = field(default_factory=dict)  # our names, and the trainer's key or flag that said it
    assumed: Mapping[str, Any] = field(default_factory=dict)  # our names, and the trainer's default that was taken
    unresolved: tuple[str, ...] = ()  # variables and files that could not be found
    names: Trainer | None = None  # whose keys and defaults these are: the trainer's, or those of a fork of it

    @property
    def maker(self) -> str | None:
        """The name of the trainer, or of a fork of it."""
        return self.names.name if self.names else None


_ENDS = {  # last parts of keys, whatever stands before them, that say one of ours in any trainer
    "turns": ("max_turns", "max_turn", "max_assistant_turns", "max_rollout_turns", "max_llm_turns", "rounds"),
    "turn_tokens": ("max_tokens_per_turn", "max_tokens_per_step", "max_turn_tokens"),
    "tool_tokens": ("max_obs_length", "max_tool_response_tokens", "max_tokens_per_tool_response"),
}
# Templates and prompts that keep a hybrid model from thinking, by a key and its value.
_NO_THINKING = re.compile(
    r"(enable|use)_?thinking\W+(false|0)|(disable_?|no_?)think(ing)?=(true|1)|/no_think|(template|prompt|system).*no[-_]?think",
    re.IGNORECASE,
)
_LARGEST = 2**63
_OFF = {"lora_on": ("full",)}  # ms-swift's tuner_type
_FALSE = ("", "none", "null", "false", "disable", "no", "off")
_TEXTS = ("model", "allocation", "train_devices", "infer_devices")  # of these, what is no number by itself


class Known:
    """What a configuration says by our names, and what its trainer takes where it says nothing."""

    def __init__(
        self, names: Trainer | None, settings: Flat, flags: Mapping[str, Any], *, whole: bool, silent: bool
    ) -> None:
        patterns = names.keys if names else {}
        dropped = {name for name, ways in patterns.items() if not ways}  # by a fork that has no such setting
        self.keys: dict[str, str] = {}  # of the trainer, that said them
        self.sharding = named_by(names.sharding if names else {}, settings)
        self.recipe = named_by(names.recipes if names else {}, settings)  # the nearest by its names
        for name in dict.fromkeys((*patterns, *SETTINGS)):
            # Of two ways to train, the keys of the one that is used.
            ways = sorted(patterns.get(name, ()), key=lambda key: ("megatron" in key) != (self.sharding == "megatron"))
            first = () if name in dropped and flags.get(name) is None else (name,)
            if place := next((key for key in (*first, *ways) if settings.get(key) is not None), None):
                self.keys[name] = place
        for name, ends in _ENDS.items():  # of what forks call as they like
            if name not in self.keys and (place := next((key for key in settings if _ends(key, ends)), None)):
                self.keys[name] = place
        silenced = (key for key, value in settings.items() if _NO_THINKING.search(f"{key}={value}"))
        if "no_thinking" not in self.keys and (place := next(silenced, None)):
            self.keys["no_thinking"] = place
        defaults = {**names.defaults, **(names.assumed if whole else {})} if names and not silent else {}
        used = {*self.keys, *dropped, *(["sharding"] if self.sharding else [])}
        self.assumed = {name: value for name, value in defaults.items() if name not in used}
        self.values = self.assumed | {name: settings[key] for name, key in self.keys.items()}

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def plain(self, name: str) -> Any:
        """Return what is written; a negative number says that something never is, or that it was left open."""
        value = self.values.get(name)
        if name == "dataset":  # a path in a folder that is not known, or several
            return value
        if isinstance(value, list) and name == "train_gpus":  # of several nodes
            value = sum(number for number in value if isinstance(number, int))
        if isinstance(value, list):
            value = value[-1 if name == "clip_high" else 0] if value else None
        if isinstance(value, bool) or (isinstance(value, str) and ("$" in value or not value)):
            return None
        if isinstance(value, int | float) and not abs(value) < _LARGEST:
            if isinstance(value, float) and not math.isfinite(value):
                return None
            raise InputError(f"{self.keys.get(name, name)} is {str(value)[:20]}…: no setting is larger than 2^63")
        if isinstance(value, int | float) and value < 0:
            return 0 if name.endswith("_every") else None
        return value

    def left_open(self, name: str) -> bool:
        """Whether a value hangs on what is not known, or stands where a number should: `nnodes=TO_BE_FILLED`."""
        value = self.values.get(name)
        text = isinstance(value, str) and value and name not in _TEXTS
        return is_open(value) or bool(text)

    def number(self, name: str) -> float | None:
        """Return a number of at least 0; None where none is given."""
        value = self.plain(name)
        return value if isinstance(value, int | float) else None

    def count(self, name: str) -> int | None:
        """Return a whole number of at least 0; None where none is given."""
        value = self.number(name)
        return None if value is None else int(value)

    def holds(self, name: str) -> bool:
        """Say whether something is on; it is not where nothing is said."""
        value = self.values.get(name)
        return bool(value) and str(value).casefold() not in (*_FALSE, *_OFF.get(name, ()))

    def off(self, name: str) -> bool:
        """Say whether something is said not to be on."""
        return name in self and not self.holds(name)


def named_by(names: Mapping[str, Mapping[str, Any]], settings: Flat) -> str | None:
    """Return the first name any of whose keys has its value, or one of its values; None where none has."""
    texts = {key: str(value).casefold() for key, value in settings.items()}
    return next(
        (
            name
            for name, any_of in names.items()
            for key, values in any_of.items()
            for value in (values if isinstance(values, list) else [values])
            if key in texts and fnmatchcase(texts[key], str(value).casefold())
        ),
        None,
    )


def is_open(value: object) -> bool:
    """Whether a value hangs on a variable that is not set, or on what would be run; of a path only its name counts."""
    return isinstance(value, str) and "$" in value.rstrip("/").rpartition("/")[2]


def _ends(key: str, ends: Sequence[str]) -> bool:
    return key.rpartition(".")[2] in ends and not any(part in key for part in ("val", "eval"))
