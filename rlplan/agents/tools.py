"""Commands as tools of an agent: what each may be given, from its own flags, and the command line that follows.

A value that could be a path must lie in the folder that the agent works in, and no flag is offered that trains,
deletes or never ends, but of the tools that run.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter

from budgets.errors import InputError

# What only reads, and what starts or ends training.
READING = (
    "check", "propose", "preview", "price", "fit", "compare", "watch", "replay",
    "status", "recommend", "rank", "decisions", "launch",
)  # fmt: skip
RUNNING = ("sweep", "resume", "retry", "launch", "pause", "stop")
OURS = {"format", "db", "explain"}  # flags that the server decides
# Flags of commands that only read which write, train, or go on for as long as a run does.
NOT_TO_READ = {
    "price": {"measure", "problems", "checkpoint", "reward", "forget"},
    "check": {"fix"},
    "fit": {"plot"},
    "status": {"watch"},
    "watch": {"once", "every"},
}
ALWAYS = {"watch": ("--once",)}
ONLY = {"launch": {"sweep", "print", "row"}}  # of it, where nothing may run
ADDRESSES = {"ray_address", "storage"}  # of tools that run
_URL = re.compile(r"[A-Za-z][\w+.-]*://")


class Envelope(BaseModel):
    """What a tool answers."""

    answer: Any = Field(description="the command's JSON document; null while a run goes on")
    exit_code: int | None = Field(description="0 done, 5 finished with failures or warnings; null while a run goes on")
    said: str = Field(description="warnings and notes")


@dataclass(frozen=True, slots=True)
class CommandTool:
    """One command with the flags that an agent may set."""

    name: str
    summary: str
    parameters: Mapping[str, Any]  # of typer, by their names
    runs: bool
    prints_json: bool

    @property
    def lines(self) -> bool:
        """Whether its answer is a list, of which the command prints a line each."""
        return self.name == "watch"

    @property
    def schema(self) -> dict[str, Any]:
        """Return what it may be given, as a JSON schema."""
        properties = {name: _schema(each) for name, each in self.parameters.items()}
        needed = [name for name, each in self.parameters.items() if each.required]
        if not self.runs and self.name == "launch":
            needed.append("print")
        return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}

    def words(self, given: Mapping[str, Any], folder: Path) -> list[str]:
        """Return the command line for what was given; InputError where that may not be."""
        if unknown := sorted(given.keys() - self.parameters.keys()):
            allowed = ", ".join(self.parameters)
            raise InputError(f"{self.name} has no '{unknown[0]}' here; it takes {allowed}")
        if missing := [name for name in self.schema["required"] if given.get(name) is None]:
            raise InputError(f"{self.name} needs '{missing[0]}'")
        flags: list[str] = []
        places: list[str] = []
        for name, each in self.parameters.items():
            for text in _texts(given.get(name)) if name not in ADDRESSES else ():
                require_inside(text, folder, name)
            if each.param_type_name == "argument":
                places += _texts(given.get(name))
            else:
                flags += _flag(each, given.get(name))
        flags += ALWAYS.get(self.name, ())
        flags += ["--format", "json"] if self.prints_json else []
        return [self.name, *flags, *(["--", *places] if places else [])]


def tools_of(group: Any, *, runs: bool) -> dict[str, CommandTool]:
    """Return the tools that the commands of a group make, those that run only where that is allowed."""
    found = {name: _tool(group.commands[name], runs=False) for name in READING if name in group.commands}
    if runs:
        found |= {name: _tool(group.commands[name], runs=True) for name in RUNNING}
    return found


def require_inside(text: str, folder: Path, name: str) -> None:
    """Refuse what names a place outside of the folder: by '..', '~', a link, or a URL."""
    if _URL.match(text):
        raise InputError(f"'{name}' is a URL; an agent's files lie in {folder}")
    if not Path(folder, Path(text).expanduser()).resolve().is_relative_to(folder.resolve()):
        raise InputError(f"'{name}' lies outside of {folder}, which is all that an agent may read: {text}")


def _tool(command: Any, *, runs: bool) -> CommandTool:
    name = command.name
    left_out = OURS | (set() if runs else NOT_TO_READ.get(name, set()))
    only = None if runs else ONLY.get(name)
    named = {flag_name(each): each for each in command.params}
    flags = {key: each for key, each in named.items() if key not in left_out and (only is None or key in only)}
    summary = " ".join((command.help or "").partition("Example:")[0].split())
    return CommandTool(name, summary, flags, runs, "format" in named)


def flag_name(parameter: Any) -> str:
    """Return what a person types: a flag without its dashes, or an argument's name."""
    return str(max(parameter.opts, key=len)).lstrip("-").replace("-", "_")


def _schema(parameter: Any) -> dict[str, Any]:
    found = {
        key: value
        for key, value in TypeAdapter(parameter.type_descriptor.annotation).json_schema().items()
        if key in ("type", "enum")
    }
    several = parameter.multiple or parameter.nargs == -1
    schema: dict[str, Any] = {"type": "array", "items": found} if several else found
    return schema | ({"description": parameter.help} if parameter.help else {})


def _texts(value: Any) -> list[str]:
    """Return values as texts; none of what is no text or number."""
    if value is None or isinstance(value, bool):
        return []
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _flag(parameter: Any, value: Any) -> Iterator[str]:
    """Yield a flag with its value; nothing of a switch that is off."""
    long = max(parameter.opts, key=len)
    if isinstance(value, bool):
        yield from [long] if value else parameter.secondary_opts[:1]
        return
    for text in _texts(value):
        yield f"{long}={text}"
