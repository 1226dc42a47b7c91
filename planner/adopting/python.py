"""What a Python script that starts a trainer says, by its syntax tree: nothing of it is executed."""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from planner.adopting.configuration import Flat

_LONGEST = 4096  # characters of a text that is put together
_LARGEST = 2**63  # number that is multiplied
_CONFIGURATION = ("Config", "Arguments", "Args")  # ends of the names of what settings are given to
_DEFAULTS = ("grpo_defaults",)  # of verifiers, which trains with TRL
_LORA = ("LoraConfig", "lora_defaults")
_LOADERS = ("from_pretrained", "get_model_and_tokenizer")
_TRAINERS = ("Trainer",)
_MODEL = ("model", "model_name", "model_id", "model_name_or_path", "pretrained_model_name_or_path")


@dataclass(frozen=True, slots=True)
class Python:
    """What a script says without being run."""

    head: str = ""  # the text that it begins with, which often has its command
    found: Flat = field(default_factory=dict)  # what its calls set
    calls: tuple[str, ...] = ()  # the names of those that set something


def read_python(text: str) -> Python:
    """Read a script's syntax tree; nothing where it is no Python."""
    try:
        tree = ast.parse(text)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        known: Flat = {}
        for node in ast.walk(tree):
            known |= _named(node, known)
        found = {key: value for call in calls for key, value in _settings(call, known)}
        configurations = {name for node in ast.walk(tree) for name in _configuration_named(node)}
        found |= {key: value for node in ast.walk(tree) for key, value in _changed(node, configurations, known)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Python()
    head = re.sub(r"(?m)^\s*```.*$", "", ast.get_docstring(tree) or "")
    return Python(head, found, tuple(_name(call) for call in calls if _configures(call)))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _named(node: ast.AST, known: Flat) -> Iterator[tuple[str, Any]]:
    """Yield the constants that a name stands for: assigned, the default of a flag, or of a class's field."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            if (constant := _constant(value, known)) is not None:
                yield name, constant
        case ast.Call(func=ast.Attribute(attr="add_argument"), args=[*flags], keywords=keywords):
            default = next((_constant(each.value, {}) for each in keywords if each.arg == "default"), None)
            for flag in flags:
                if default is not None and isinstance(flag, ast.Constant) and str(flag.value).startswith("--"):
                    yield str(flag.value).lstrip("-").replace("-", "_"), default


def _configuration_named(node: ast.AST) -> Iterator[str]:
    """Yield the name that a call's settings are given: `args = GRPOConfig(…)`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _configures(call):
            yield name


def _configures(call: ast.Call) -> bool:
    return _name(call).endswith(_CONFIGURATION) or _name(call) in _DEFAULTS


def _changed(node: ast.AST, configurations: set[str], known: Flat) -> Iterator[tuple[str, Any]]:
    """Yield what is set on settings after their call: `args.max_steps = 200`."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=key)], value=value):
            if name in configurations and (constant := _constant(value, known)) is not None:
                yield key, constant


def _settings(call: ast.Call, known: Flat) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a call by their dotted keys."""
    name = _name(call)
    given = {each.arg: _constant(each.value, known) for each in call.keywords if each.arg}
    first = _constant(call.args[0], known) if call.args else None
    if name in _LORA:
        yield from [("use_peft", True), *(("lora_r", value) for key, value in given.items() if key == "r" and value)]
    elif _configures(call):
        yield from ((key, value) for key, value in given.items() if value is not None)
    elif name.endswith(_TRAINERS) or name in _LOADERS:
        model = next((given[key] for key in _MODEL if given.get(key)), first)
        if isinstance(model, str):
            yield "model_name_or_path", model
    elif name == "load_dataset" and isinstance(first, str):
        yield "dataset_name", first


def _constant(node: ast.expr | None, known: Flat) -> Any:
    """Return what an expression is without being run; None where that is not known."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in known:
            return known[name]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            values = (_constant(left, known), _constant(right, known))
            small = all(isinstance(each, int | float) and abs(each) < _LARGEST for each in values)
            return values[0] * values[1] if small else None
        case ast.JoinedStr(values=parts):
            texts = [_constant(each.value if isinstance(each, ast.FormattedValue) else each, known) for each in parts]
            text = "".join(map(str, texts))
            return None if None in texts or len(text) > _LONGEST else text
        case ast.Attribute(attr=name):
            return name if name in ("bfloat16", "float16", "float32") else None
        case ast.expr():
            with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return ast.literal_eval(node)
    return None
