"""A script that starts a trainer already: what it sets is kept, and what rlplan decides is replaced, and listed.

It is read as `rlplan check` reads it; what of it is ours to decide shows where the driver makes a trial's settings.
"""

import ast
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from planner.logs.trainers import load_trainer
from planner.scripts.configuration import SUFFIXES, words_set
from planner.scripts.script import what_it_sets
from planner.scripts.shell import Shell, read_shell
from runner.trainers.base import Driver
from runner.trainers.catalogue import NAMED, named_driver
from runner.trainers.keys import folder_of, is_known, stands_with

_RUNS = {  # our names for what changes how a trainer runs, and not what it computes
    "activation_checkpointing",
    "colocated",
    "dynamic_batches",
    "engine_gpus",
    "engine_memory_share",
    "engine_tensor_parallel",
    "fp8_on",
    "keep_checkpoints",
    "lora_on",
    "lora_rank",
    "micro_batch_sequences",
    "micro_batch_tokens",
    "optimizer_offload",
    "parameter_offload",
    "precision",
    "rollout_precision",
    "train_pipeline_parallel",
    "train_tensor_parallel",
    "zero_stage",
}
_OPEN = re.compile(r"\$[\w({]")  # a variable that the script does not set, or what would be run
_MOST = 12  # keys of a kind that are listed


@dataclass(frozen=True, slots=True)
class Script:
    """What a script sets, as options of its trainer's driver, and what of it is not taken."""

    path: Path
    trainer: str
    settings: dict[str, Any] = field(default_factory=dict)  # the trainer's keys; the plan may still decide some
    options: dict[str, Any] = field(default_factory=dict)  # of the driver
    replaced: dict[str, Any] = field(default_factory=dict)  # what the plan decides, with what the script says
    foreign: tuple[str, ...] = ()  # what the version that rlplan starts has no setting for
    variables: dict[str, str] = field(default_factory=dict)  # that the trainer would see

    def onto(self, trainer: TrainerChoice | None) -> TrainerChoice:
        """Return the trainer with what the script sets; what its own options say wins."""
        if trainer is None or self.trainer != trainer.name:
            raise InputError(f"--from {self.path}: it starts {self.trainer}, and goes with --trainer {self.trainer}")
        settings = {**self.settings, **trainer.options.get("settings", {})}
        options = {**self.options, **trainer.options, "settings": settings}
        return trainer.model_copy(update={"options": options}).with_variables(self.variables)

    def notes(self, settings: Mapping[str, Any], decided: Mapping[str, Any]) -> list[str]:
        """Say what is kept, by the settings that a sweep has in the end, and what is replaced or left out.

        `decided` has what the first trial takes in its place, by our names.
        """
        name, form = self.path.name, _driver(self.trainer).script
        dropped = {key: value for key, value in self.settings.items() if key not in settings}
        options = [key for key, option in form.options.items() if option in self.options]
        lines = [f"of {name} these are kept: {_listed([*(key for key in self.settings if key in settings), *options])}"]
        if self.variables:
            lines.append(f"of {name} these variables are set: {_listed(self.variables)}")
        if replaced := {**self.replaced, **dropped}:
            ours = {key: name for name, keys in load_trainer(self.trainer).keys.items() for key in keys}
            new = {key: decided.get(ours.get(key.replace("-", "_"), "")) for key in replaced}
            overrides = _listed([_replaced(key, value, new[key]) for key, value in replaced.items()])
            lines.append(f"of {name} these are decided by the plan: {overrides}")
        if self.foreign:
            lines.append(f"of {name} these are no settings that rlplan's {self.trainer} has: {_listed(self.foreign)}")
        return lines


def read_script(path: Path) -> Script:
    """Read what a script tells its trainer; InputError where it starts none that rlplan does."""
    try:
        command = what_it_sets([path.expanduser()])
    except InputError as error:
        raise InputError(f"--from {path}: {error}") from None
    if command.trainer not in NAMED:
        raise InputError(f"--from {path}: it starts none of {', '.join(NAMED)}")
    names = load_trainer(command.trainer)
    if (fork := names.as_forked(command.pairs(), command.found)).keys != names.keys:
        raise InputError(f"--from {path}: it starts {fork.name}, whose settings are not those of {command.trainer}")
    if any(word[:1] in ("'", '"') for word in command.words):
        raise InputError(f"--from {path}: the command cannot be read: a quotation does not end")
    script, driver = Script(path, command.trainer), _driver(command.trainer)
    form = driver.script
    written = {word.lstrip("+").partition("=")[0]: word.partition("=")[0] for word in command.words if "=" in word}
    decided, foreign = _decided(command.trainer), []
    file = path.expanduser()
    shell = (
        Shell() if file.suffix in (".py", *SUFFIXES) else read_shell(file.read_text("utf-8", "replace"), file.parent)
    )
    of_the_model = shell.values.get("MODEL_ARGS", "") if "model_args" in driver.Options.model_fields else ""
    of_model = {flag for flag, _ in words_set(of_the_model.split())}
    for name, value in command.found.items():
        key = name.replace("_", "-") if form.dashes else name
        if key in form.options:
            script.options[form.options[key]] = _value(value)
        elif name in decided | of_model or any(fnmatchcase(key, pattern) for pattern in form.decided):
            script.replaced[key] = value
        elif not _knows(driver, key) or not any(fnmatchcase(key, pattern) for pattern in form.known):
            foreign.append(key)
        elif any(other.startswith(f"{key}.") for other in command.found):
            continue  # what lies below it says more
        else:
            # Hydra wants to be told of keys that its own files have not.
            script.settings[written.get(key, f"++{key}") if driver.form == "hydra" else key] = _value(value)
    return replace(script, foreign=tuple(foreign), variables=_variables(shell, command.words))


def require_known(script: Script, settings: Mapping[str, Any]) -> None:
    """Refuse a script's value that cannot be known from it, of what is kept."""
    driver = _driver(script.trainer)
    for key in script.settings.keys() & settings.keys():
        value = settings[key]
        text = value if isinstance(value, str) else ""
        if _OPEN.search(text) and not (driver.script.refers and text.startswith("${")):
            raise InputError(
                f"--from {script.path}: {key}={text} names a variable that the script does not set: set it there"
            )
        if driver.form == "hydra" and (isinstance(value, dict) or text.startswith("{")):
            raise InputError(f"--from {script.path}: {key}={text}: give its parts one by one, as {key}.NAME=…")


def without(settings: Mapping[str, Any], taken: Collection[str], own: Collection[str]) -> dict[str, Any]:
    """Return the settings without those that the plan decides; what the user's own options say stays."""
    return {
        key: value
        for key, value in settings.items()
        if key in own or not any(stands_with(key, decided) for decided in taken)
    }


def _value(value: Any) -> Any:
    """Return what a text of a command line stands for: nothing, a list, a table, or the text."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.lower() in ("true", "false", "null", "none"):
        return {"true": True, "false": False}.get(text.lower())
    if text.startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError:
            if text.startswith("[") and text.endswith("]"):
                return [_value(part.strip(" '\"")) for part in text[1:-1].split(",") if part.strip()]
    try:
        number = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return number if isinstance(number, int | float) else text


def _driver(trainer: str) -> Driver[Any]:
    driver = named_driver(trainer)
    assert driver is not None
    return driver


@cache
def _decided(trainer: str) -> frozenset[str]:
    """Return the keys, of this version or another, that say what a plan does."""
    keys_by_name = load_trainer(trainer).keys
    return frozenset(key for name, keys in keys_by_name.items() if name not in _RUNS for key in keys)


def _knows(driver: Driver[Any], key: str) -> bool:
    """Whether the version that rlplan starts has such a setting, as far as that is known without it."""
    if driver.script.listed is not None:
        return key in folder_of(driver.name).joinpath(driver.script.listed).read_text(encoding="utf-8").split()
    return key.startswith(driver.others) or is_known(driver.name, key)


def _variables(shell: Shell, words: tuple[str, ...]) -> dict[str, str]:
    """Return the variables that the trainer is given; one that rests on one of the machine's own is left to that."""
    of_it = [command.environment for command in shell.commands if words and command.words[-len(words) :] == words]
    exported = {name: shell.values[name] for name in shell.exported if name in shell.values}
    variables = exported | (of_it[0] if of_it else {})
    return {name: value for name, value in variables.items() if not _OPEN.search(value)}


def _replaced(key: str, value: Any, new: Any) -> str:
    """Say what stands for a value; None where each trial has its own or nothing is set."""
    if new is None:
        return f"{key} (it says {value})"
    was, becomes = (f"{x:.4g}".replace("e-0", "e-") if isinstance(x, float) else str(x) for x in (value, new))
    return f"{key} ({was} as it says)" if was == becomes else f"{key} ({was} becomes {becomes})"


def _listed(keys: Collection[str]) -> str:
    several = [*keys]
    more = f" and {len(several) - _MOST} more" if len(several) > _MOST else ""
    return f"{', '.join(several[:_MOST])}{more}" or "none"
