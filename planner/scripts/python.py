"""What a Python script would train with, by its syntax tree: calls, classes of settings, defaults of its flags."""

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.scripts.configuration import Flat
from planner.scripts.shell import LARGEST

_LONGEST = 4096  # characters of a text that is put together
_LARGEST = 2**63  # number that is computed
_CONFIGURATION = ("Config", "Arguments", "Args")  # ends of the names of what settings are given to
_DEFAULTS = ("grpo_defaults",)  # of verifiers, which trains with TRL
_LORA = ("LoraConfig", "lora_defaults", "get_peft_model")
_LOADERS = ("from_pretrained", "get_model_and_tokenizer")
_TRAINERS = ("Trainer",)
_MOST_NAMED = 5  # arguments by place, of which the fifth is a trainer's data to validate on
_MODEL = ("model", "model_name", "model_id", "model_name_or_path", "pretrained_model_name_or_path")
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@dataclass(frozen=True, slots=True)
class PythonScript:
    """What a script sets, the names that it calls and imports, and the texts in it, which often have its command."""

    found: Flat
    words: tuple[str, ...] = ()
    texts: str = ""


def read_python(text: str, folder: Path, flags: Mapping[str, Any] | None = None) -> PythonScript:
    """Read a script that lies in a folder; `flags` are those of the command that starts it."""
    try:
        tree = _parsed(text)
        constants: Flat = {}
        for module in _modules(tree, folder):
            constants |= _all_constants(module, constants)
        constants |= _all_constants(tree, constants) | dict(flags or {})
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        settings = {key: value for node in ast.walk(tree) for key, value in _fields(node, constants)}
        settings |= {key: value for call in calls for key, value in _settings(call, constants)}
        configurations: set[str] = set()  # the names that settings are given to: `args = GRPOConfig(…)`
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _configures(call):
                    configurations.add(name)
        settings |= {key: value for node in ast.walk(tree) for key, value in _changed(node, configurations, constants)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PythonScript({})
    values = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    texts = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    words = [_name(call) for call in calls if _configures(call)]
    words += [name.partition(".")[0] for name in _imports(tree)]
    return PythonScript(settings, tuple(dict.fromkeys(words)), re.sub(r"(?m)^\s*```.*$", "", "\n".join(texts)))


def notebook_code(text: str) -> str:
    """Return the code of a notebook's cells; ValueError where it is none."""
    cells = json.loads(text).get("cells", [])
    return "\n".join("".join(cell.get("source", [])) for cell in cells if cell.get("cell_type") == "code")


def _parsed(text: str) -> ast.Module:
    """Parse it, without the lines that a notebook gives to the shell where it has such."""
    with suppress(SyntaxError):
        return ast.parse(text)
    return ast.parse(re.sub(r"(?m)^([ \t]*)[!%].*$", r"\1pass", text))


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a script imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _modules(tree: ast.Module, folder: Path) -> Iterator[ast.Module]:
    """Yield the imported modules that lie beside a script, such as its configuration."""
    for name in dict.fromkeys(_imports(tree)):
        path = folder / f"{name.replace('.', '/')}.py"
        with suppress(OSError, SyntaxError, ValueError):
            if path.is_file() and path.stat().st_size <= LARGEST:
                yield ast.parse(path.read_text(encoding="utf-8", errors="replace"))


def _all_constants(tree: ast.Module, so_far: Flat) -> Flat:
    """Return what names stand for in a script; twice, since the default of a flag may stand behind its use."""
    constants = dict(so_far)
    for _ in range(2):
        for node in ast.walk(tree):
            constants |= _constants(node, constants)
    return constants


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _constants(node: ast.AST, constants: Flat) -> Iterator[tuple[str, Any]]:
    """Yield the constants that a name stands for: assigned, the default of a flag, or of a class's field."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            if (constant := _constant(value, constants)) is not None:
                yield name, constant
        case ast.Call(func=ast.Attribute(attr="add_argument"), args=[*flags], keywords=keywords):
            default = next(
                (_constant(keyword.value, constants) for keyword in keywords if keyword.arg == "default"), None
            )
            for flag in flags:
                if default is not None and isinstance(flag, ast.Constant) and str(flag.value).startswith("--"):
                    yield str(flag.value).lstrip("-").replace("-", "_"), default


def _configures(call: ast.Call) -> bool:
    return _name(call).endswith(_CONFIGURATION) or _name(call) in _DEFAULTS


def _fields(node: ast.AST, constants: Flat) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a class of settings with their defaults: `class Run(BaseConfig): n_samples: int = 8`."""
    if isinstance(node, ast.ClassDef):
        bases = [
            node.name,
            *(base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases),
        ]
        for field in node.body if any(base.endswith(_CONFIGURATION) for base in bases) else []:
            yield from ((name, value) for name, value in _constants(field, constants) if value is not None)


def _changed(node: ast.AST, configurations: set[str], constants: Flat) -> Iterator[tuple[str, Any]]:
    """Yield what is set on settings after their call: `args.max_steps = 200`."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=key)], value=value):
            if name in configurations and not _is_none(value):
                yield key, _value(value, constants)


def _settings(call: ast.Call, constants: Flat) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a call by their dotted keys."""
    name, words = _name(call), {keyword.arg for keyword in call.keywords}
    arguments = {keyword.arg: _constant(keyword.value, constants) for keyword in call.keywords if keyword.arg}
    first = _constant(call.args[0], constants) if call.args else None
    if name in _LORA:
        yield from [
            ("use_peft", True),
            *(("lora_r", value) for key, value in arguments.items() if key == "r" and value),
        ]
    elif _configures(call):
        yield from (
            (keyword.arg, _value(keyword.value, constants))
            for keyword in call.keywords
            if keyword.arg and not _is_none(keyword.value)
        )
    elif name.endswith(_TRAINERS) or name in _LOADERS:
        model = next((arguments[key] for key in _MODEL if arguments.get(key)), first)
        if isinstance(model, str):
            yield "model_name_or_path", model
        if name.endswith(_TRAINERS) and None not in words and len(call.args) < _MOST_NAMED:
            yield "eval_dataset_given", "eval_dataset" in words
    elif name == "train" and arguments.get("resume_from_checkpoint"):
        yield "resume_from_checkpoint", arguments["resume_from_checkpoint"]
    elif name == "load_dataset" and isinstance(first, str):
        yield "dataset_name", first


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _value(node: ast.expr, constants: Flat) -> Any:
    """Return what a setting is; where that hangs on what is not known, its expression, as an open variable."""
    constant = _constant(node, constants)
    return f"${ast.unparse(node)[:40]}" if constant is None else constant


def _constant(node: ast.expr | None, constants: Flat) -> Any:
    """Return what an expression is without being run; None where that is not known."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in constants:
            return constants[name]
        case ast.BinOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.IfExp() | ast.Call():
            return _called(node, constants) if isinstance(node, ast.Call) else _computed(node, constants)
        case ast.JoinedStr(values=parts):
            texts = [
                _constant(part.value if isinstance(part, ast.FormattedValue) else part, constants) for part in parts
            ]
            text = "".join(map(str, texts))
            return None if None in texts or len(text) > _LONGEST else text
        case ast.Attribute(attr="bfloat16" | "float16" | "float32" as name):
            return name
        case ast.expr():
            with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return ast.literal_eval(node)
    return None


def _computed(node: ast.expr, constants: Flat) -> Any:
    """Return what a sum, a comparison or a choice comes to; None where a part is not known."""
    match node:
        case ast.BinOp(left=left, op=sign, right=right) | ast.Compare(left=left, ops=[sign], comparators=[right]):
            values, compute = (_constant(left, constants), _constant(right, constants)), _OPERATORS.get(type(sign))
            small = all(isinstance(value, int | float) and abs(value) < _LARGEST for value in values)
            with suppress(ZeroDivisionError):
                if compute and (small or (isinstance(node, ast.Compare) and None not in values)):
                    return compute(*values)
        case ast.UnaryOp(operand=operand) if (constant := _constant(operand, constants)) is not None:
            return not constant
        case ast.IfExp(test=test, body=body, orelse=otherwise) if (constant := _constant(test, constants)) is not None:
            return _constant(body if constant else otherwise, constants)
    return None


def _called(node: ast.Call, constants: Flat) -> Any:
    """Return what `int(…)`, `field(default=…)` and `os.environ.get(NAME, …)` come to; None of other calls."""
    match node:
        case ast.Call(func=ast.Name(id="int" | "float" | "str" as kind), args=[inner]):
            value = _constant(inner, constants)
            with suppress(ValueError, TypeError):
                return None if value is None else {"int": int, "float": float, "str": str}[kind](value)
        case ast.Call(func=ast.Name(id="field" | "Field"), keywords=keywords):
            return next((_constant(keyword.value, constants) for keyword in keywords if keyword.arg == "default"), None)
        case ast.Call(func=ast.Attribute(attr="get" | "getenv"), args=[ast.Constant(), default]):
            return _constant(default, constants)
    return None
