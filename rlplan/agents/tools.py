"""Commands as tools of an agent: what each may be given, from its own flags, and the command line that follows.

Arguments are held against the tool's schema before anything starts. A value that could be a path must lie in the
folder that the agent works in, and no flag is offered that trains, deletes or never ends, but of the tools that run.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter

from budgets.errors import InputError
from rlplan.agents.confinement import outside

# What only reads, and what starts or ends training.
READING = (
    "check", "propose", "preview", "price", "fit", "compare", "watch", "replay",
    "status", "recommend", "rank", "decisions", "launch",
)  # fmt: skip
RUNNING = ("sweep", "resume", "retry", "launch", "pause", "stop")
FINAL = "run_final"  # the tool of `launch` that trains; the one of its name prints
PRINTING = "Print a row of a plan or a sweep in the keys of verl, trl, …, for who starts it himself; it runs nothing."
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
NOT_TO_RUN = {"launch": {"print"}}
ADDRESSES = {"ray_address", "storage"}  # of tools that run: may be on other machines
DETAIL = "detail"
_URL = re.compile(r"[A-Za-z][\w+.-]*:/")
_HERE = re.compile(r"(?:file|local):/*")  # a URL of this machine
_BETWEEN = re.compile(r"[,=:\s]")  # the parts of a value, as commands split it
_WORD = re.compile(r"\w+")
DOLLARS = "$<dollars>"
_NUMBERS = ("<x>", "<gpu-hours>")  # what stands for a number where a word or a percentage may stand too


class Envelope(BaseModel):
    """What a tool answers."""

    answer: Any = Field(description="the command's JSON document; null while a run goes on")
    exit_code: int | None = Field(description="0 done, 5 finished with failures or warnings; null while a run goes on")
    said: str = Field(description="warnings and notes")
    left_out: dict[str, str] = Field({}, description="how much of a list is shown; with detail = true all is")


@dataclass(frozen=True)
class CommandTool:
    """One command with the flags that an agent may set."""

    name: str
    command: str
    summary: str
    parameters: Mapping[str, Any]  # of typer, by their names
    runs: bool
    prints_json: bool

    @property
    def lines(self) -> bool:
        """Whether its answer is a list, of which the command prints a line each."""
        return self.name == "watch"

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Return what it may be given, as a JSON schema."""
        properties = {name: _schema(parameter) for name, parameter in self.parameters.items()}
        needed = [name for name, parameter in self.parameters.items() if parameter.required]
        if self.name == "launch":  # without it the command trains
            needed.append("print")
            properties["print"] |= {"pattern": r"\S"}
        if self.prints_json and not self.runs:
            properties[DETAIL] = {"type": "boolean", "description": "The whole answer; without it the start of lists."}
        return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}

    def words(self, arguments: Mapping[str, Any], folder: Path) -> list[str]:
        """Return the command line for some arguments; InputError where they may not be."""
        self._require_valid(arguments)
        flags: list[str] = []
        places: list[str] = []
        for name, parameter in self.parameters.items():
            texts = _texts(arguments.get(name))
            for text in texts:
                require_inside(text, folder, name)
            if parameter.param_type_name == "argument":
                places += texts
            else:
                flags += _flag(parameter, arguments.get(name))
        flags += ALWAYS.get(self.name, ())
        flags += ["--format", "json"] if self.prints_json else []
        return [self.command, *flags, *(["--", *places] if places else [])]

    def _require_valid(self, arguments: Mapping[str, Any]) -> None:
        if unknown := sorted(arguments.keys() - self.schema["properties"].keys()):
            allowed = ", ".join(self.schema["properties"])
            raise InputError(f"{self.name} has no '{unknown[0]}' here; it takes {allowed}")
        for error in Draft202012Validator(self.schema).iter_errors(arguments):
            where = f"'{error.path[0]}': " if error.path else ""
            raise InputError(f"{self.name} was not run. {where}{error.message[:200]}")


def tools_of(group: Any, *, runs: bool) -> dict[str, CommandTool]:
    """Return the tools that the commands of a group make, those that run only where that is allowed."""
    tools = [_tool(group.commands[name], runs=False) for name in READING if name in group.commands]
    tools += [_tool(group.commands[name], runs=True) for name in RUNNING if runs]
    return {tool.name: tool for tool in tools}


def require_inside(text: str, folder: Path, name: str) -> None:
    """Refuse what names a place outside of the folder, in whole or in a part: by '..', '~', a link, or a URL."""
    if name in ADDRESSES:
        if _URL.match(text) and not _HERE.match(text):
            return
        text = _HERE.sub("/", text)
    for part in (text, *map(str.strip, _BETWEEN.split(text))):
        if _URL.match(part):
            raise InputError(f"'{name}' is a URL; an agent's files lie in {folder}")
        if outside(part, folder):
            raise InputError(f"'{name}' lies outside of {folder}, which is all that an agent may read: {part}")


def _tool(command: Any, *, runs: bool) -> CommandTool:
    name = command.name
    left_out = OURS | (NOT_TO_RUN if runs else NOT_TO_READ).get(name, set())
    only = None if runs else ONLY.get(name)
    parameters = {flag_name(parameter): parameter for parameter in command.params}
    flags = {key: value for key, value in parameters.items() if key not in left_out and (only is None or key in only)}
    summary = " ".join((command.help or "").partition("Example:")[0].split())
    tool, summary = (FINAL, summary) if runs and name == "launch" else (name, PRINTING if only else summary)
    return CommandTool(tool, name, summary, flags, runs, "format" in parameters)


def flag_name(parameter: Any) -> str:
    """Return what a person types: a flag without its dashes, or an argument's name."""
    return str(parameter.opts[0]).lstrip("-").replace("-", "_")


def _schema(parameter: Any) -> dict[str, Any]:
    """Return what a parameter may be: its type, or the words that its help names in place of a value."""
    several = parameter.multiple or parameter.nargs == -1
    annotation = parameter.type_descriptor.annotation
    kind = TypeAdapter(get_args(annotation)[0] if several else annotation).json_schema()
    value: dict[str, Any] = {key: kind[key] for key in ("type", "enum") if key in kind}
    choices = (parameter.metavar or "").split("|") if parameter.param_type_name == "option" else []
    words = [word for word in choices if _WORD.fullmatch(word)]
    if words and value["type"] in ("integer", "number"):
        value = {"anyOf": [value, {"enum": words}]}
    elif words == choices and len(words) > 1:
        value = {"enum": words}
    elif DOLLARS in choices:
        value = {"anyOf": [value, {"type": "string", "pattern": r"^\$[\d.,_]+$"}]}
    elif len(choices) > 1 and choices[0] in _NUMBERS:
        value = {"type": ["number", "string"]}
    schema: dict[str, Any] = {"type": "array", "items": value} if several else value
    if several and parameter.required:
        schema["minItems"] = 1
    return schema | ({"description": parameter.help} if parameter.help else {})


def _texts(value: Any) -> list[str]:
    """Return values as texts; none of what is no text or number."""
    if value is None or isinstance(value, bool):
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _flag(parameter: Any, value: Any) -> Iterator[str]:
    """Yield a flag with its value; nothing of a switch that is off."""
    long = parameter.opts[0]
    if isinstance(value, bool):
        yield from [long] if value else parameter.secondary_opts[:1]
        return
    for text in _texts(value):
        yield f"{long}={text}"
