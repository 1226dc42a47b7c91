"""JSON schemas of answers, from the types of their fields and keys, as `plain` writes them."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

from rlplan.wording.answers import Answer
from rlplan.wording.documents import View, keys_of

Schema = dict[str, Any]
# A float that is no finite number is null.
PLAIN: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": ["number", "null"]},
    str: {"type": "string"},
    Path: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    NoneType: {"type": "null"},
}
AXES: Schema = {"type": "object", "description": "what else tells it from others, such as recipe or learning_rate"}


def schema_of_answer(answer: Callable[..., Any], definitions: dict[str, Schema]) -> Schema:
    """Return the schema of what a command's `answer` returns, by its annotation."""
    return schema_of(_resolved(answer.__annotations__["return"], answer.__module__), definitions)


def schema_of(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a type; classes are defined once, in `definitions`, and referred to."""
    of, given = get_origin(kind) or kind, get_args(kind)
    if of in (Union, UnionType):
        return _any_of(schema_of(each, definitions) for each in given)
    if of is Literal:
        return {"enum": list(given)}
    if of in PLAIN or not isinstance(of, type):
        return PLAIN.get(of, {})
    return _of_class(of, given, definitions)


def _of_class(of: type, given: tuple[Any, ...], definitions: dict[str, Schema]) -> Schema:
    if issubclass(of, Enum):
        return {"enum": [each.value for each in of]}
    if is_dataclass(of):
        return _referred(of, definitions)
    if issubclass(of, Mapping):
        return {"type": "object", **({"additionalProperties": schema_of(given[1], definitions)} if given else {})}
    if issubclass(of, Iterable):
        return {"type": "array", **({"items": schema_of(_item(of, given), definitions)} if given else {})}
    return {}


def _item(of: type, given: tuple[Any, ...]) -> Any:
    """Return what the items of a sequence are: of a tuple of several types any of them."""
    return Union[given] if of is tuple and given[-1] is not Ellipsis else given[0]  # noqa: UP007 (of several)


def _any_of(schemas: Iterable[Schema]) -> Schema:
    """Return a choice; plain types are one list."""
    found: list[Schema] = []
    types: dict[str, None] = {}
    for each in schemas:
        if each.keys() == {"type"}:
            types |= dict.fromkeys([each["type"]] if isinstance(each["type"], str) else each["type"])
        elif each not in found:
            found.append(each)
    named = [{"type": next(iter(types)) if len(types) == 1 else list(types)}] if types else []
    both = [*found, *named]
    return both[0] if len(both) == 1 else {"anyOf": both}


def _referred(kind: type, definitions: dict[str, Schema]) -> Schema:
    declared = _declared(kind, "document") if issubclass(kind, Answer) else kind
    if declared is not Any and declared is not kind:
        return schema_of(declared, definitions)
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # it may refer to itself
        definitions[name] = _object(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _declared(kind: type, name: str) -> Any:
    """Return what a property of a class returns."""
    where = next(base for base in kind.__mro__ if name in vars(base))
    return _resolved(vars(where)[name].fget.__annotations__["return"], where.__module__)


def _object(kind: type, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a dataclass: what it has is there, but for axes and what is optional."""
    whole: type | None = kind.WHOLE if issubclass(kind, View) else None
    found = {"properties": {}, "required": []} if whole is None else _object(whole, definitions)
    properties, required = found["properties"], found["required"]
    for each in fields(kind):
        if each.repr and each.name == "axes":
            properties["axes"] = AXES
        elif each.repr:
            where = next(base for base in kind.__mro__ if each.name in vars(base).get("__annotations__", ()))
            properties[each.name] = schema_of(_resolved(each.type, where.__module__), definitions)
            required.append(each.name)
    for key in keys_of(kind):
        of = schema_of(_resolved(*_given(key)), definitions)
        properties[key.name] = of | ({"description": key.__doc__} if key.__doc__ and "$ref" not in of else {})
        if not key.optional:
            required.append(key.name)
    return {"type": "object", "properties": properties, "required": list(dict.fromkeys(required))}


def _given(key: Any) -> tuple[Any, str]:
    """Return the type that a key was made with, and the module where that is known."""
    (kind,) = get_args(key.__orig_class__)
    return kind, key.fget.__module__


def _resolved(kind: Any, module: str) -> Any:
    """Return the type that an annotation names, also where it is a text."""
    if isinstance(kind, ForwardRef):
        kind = kind.__forward_arg__
    if isinstance(kind, TypeVar):
        return Any
    return eval(kind, _names(module)) if isinstance(kind, str) else kind


def _names(module: str) -> dict[str, Any]:
    """Return the names of a module, with those that it imports for types alone."""
    names = dict(vars(sys.modules[module]))
    for each in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(each.body, []), module, "exec"), names)
    return names
