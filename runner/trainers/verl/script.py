"""A script that starts verl already: what it sets is kept, and what rlplan decides is replaced, and listed."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.adopting.shell import read_shell
from planner.config.trainer import TrainerChoice
from runner.trainers.driving import stands_with
from runner.trainers.spec import flat
from runner.trainers.verl.driver import JUDGE, TEMPLATE

ENTRY = "verl.trainer.main_ppo"
ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
_OPTIONS = {  # keys that have a name in [trainer.options]
    f"{ROLLOUT}.name": "rollout",
    f"{ROLLOUT}.tensor_model_parallel_size": "tensor_parallel",
    f"{ROLLOUT}.gpu_memory_utilization": "rollout_memory",
    f"{ACTOR}.strategy": "strategy",
}
_OPEN = re.compile(r"\$[\w(]")  # a variable that the script does not set, or what would be run
_WORD = re.compile(r"\+{0,2}[A-Za-z_][\w./@-]*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Script:
    """What a script sets, as options of the driver, and what of it is decided by the plan."""

    path: Path
    settings: dict[str, Any]  # verl's keys that are kept
    options: dict[str, Any]  # of the driver
    replaced: dict[str, str]  # verl's keys that are not, with what the script says
    variables: dict[str, str]  # that verl would see

    def notes(self) -> list[str]:
        """Say what is kept and what is replaced."""
        kept = [*self.settings, *(key for key, name in _OPTIONS.items() if name in self.options)]
        lines = [f"of {self.path.name} these are kept: {', '.join(kept) or 'none'}"]
        if self.variables:
            lines.append(f"of {self.path.name} these variables are set: {', '.join(self.variables)}")
        if self.replaced:
            told = ", ".join(f"{key} (it says {value})" for key, value in self.replaced.items())
            lines.append(f"of {self.path.name} these are decided by the plan: {told}")
        return lines


def with_script(trainer: TrainerChoice | None, path: Path | None) -> TrainerChoice | None:
    """Return the trainer with what a script sets; what its own options say wins."""
    if path is None:
        return trainer
    if trainer is None or trainer.name != "verl":
        raise InputError("--from takes a script that starts verl, and goes with --trainer verl")
    script = read_script(path)
    options = {**script.options, **trainer.options}
    options["settings"] = {**script.settings, **trainer.options.get("settings", {})}
    return trainer.with_variables(script.variables).model_copy(update={"options": options})


def read_script(path: Path) -> Script:
    """Read what a script tells verl; InputError where it starts none, or where a value cannot be known from it."""
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--from {path}: it cannot be read: {error}") from error
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    replaced: dict[str, str] = {}
    given, variables = _words(text, path)
    for word in given:
        key, _, value = word.partition("=")
        plain = key.lstrip("+")
        if plain in _OPTIONS:
            options[_OPTIONS[plain]] = _value(value, key, path)
        elif any(stands_with(plain, each) for each in _decided()):
            replaced[plain] = value
        elif _OPEN.search(value):
            raise InputError(f"--from {path}: {word} names a variable that the script does not set: set it there")
        else:
            settings[key] = _value(value, key, path)
    return Script(path, settings, options, replaced, variables)


def _words(text: str, path: Path) -> tuple[list[str], dict[str, str]]:
    """Return the words key=value of the command that starts verl, and the variables that it is given.

    A variable that rests on one of the machine's own is left to that.
    """
    try:
        shell = read_shell(text, path.expanduser().parent)
        command = next((each for each in shell.commands if ENTRY in each.words), None)
    except InputError as error:
        raise InputError(f"--from {path}: {error}") from None
    if command is None:
        raise InputError(f"--from {path}: it starts no verl: there is no command with {ENTRY} in it")
    words = command.words[command.words.index(ENTRY) + 1 :]
    if any(word[:1] in ("'", '"') for word in words):
        raise InputError(f"--from {path}: the command that starts verl cannot be read: a quotation does not end")
    exported = {name: shell.values[name] for name in shell.exported if name in shell.values} | command.environment
    known = {name: value for name, value in exported.items() if not _OPEN.search(value)}
    return [word for word in words if _WORD.fullmatch(word)], known


def _value(text: str, key: str, path: Path) -> Any:
    """Return a value of Hydra's command line: a number, a truth, nothing, a list of them, or text."""
    given = text.strip()
    if given.startswith("{"):
        raise InputError(f"--from {path}: {key}={given}: give its parts one by one, as {key}.NAME=…")
    if given.startswith("[") and given.endswith("]"):
        return [_value(part.strip(" '\""), key, path) for part in given[1:-1].split(",") if part.strip()]
    if given.lower() in ("true", "false", "null", "none"):
        return {"true": True, "false": False}.get(given.lower())
    try:
        number = ast.literal_eval(given)
    except (ValueError, SyntaxError):
        return given.strip("'\"")
    return number if isinstance(number, int | float | str) else given


@cache
def _decided() -> frozenset[str]:
    """Return every key that rlplan sets itself, but those that only run verl otherwise."""
    keys = (key.lstrip("+") for key, _ in flat(JUDGE.spec.keys))
    return frozenset(key for key in keys if key != TEMPLATE and not key.startswith("hydra."))
