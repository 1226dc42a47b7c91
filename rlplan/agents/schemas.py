"""JSON schemas of answers, from the types of their fields and keys, as `plain` writes them."""

import ast
import inspect
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, NotRequired, TypeVar, Union, cast, get_args, get_origin

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from rlplan.wording.answers import Answer
from rlplan.wording.documents import AxisValues, View, keys_of

Schema = dict[str, Any]
# A float that is no finite number is null.
PLAIN: dict[Any, Any] = {each: each for each in (bool, int, str, Path, datetime, NoneType)} | {float: float | None}
_DICT: Any = dict  # of types that are made while this runs
_LIST: Any = list
_TYPED: Any = TypedDict
AXES = "what else tells it from others, such as recipe or learning_rate"


class _Untitled(GenerateJsonSchema):
    """A name is no title."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Whether a field gets its name as a title."""
        return False


def schema_of_answer(answer: Callable[..., Any]) -> Schema:
    """Return the schema of what a command's `answer` returns, by its annotation."""
    kind = _written(_resolved(answer.__annotations__["return"], answer.__module__))
    return TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_Untitled)


def _written(kind: Any) -> Any:
    """Return the type of what `plain` makes of a type."""
    of, given = get_origin(kind) or kind, get_args(kind)
    if of in (Union, UnionType):
        return _either(given)
    if of in PLAIN:
        return PLAIN[of]
    if is_dataclass(of):
        return _document(cast(Hashable, of))
    bases = of.__mro__ if isinstance(of, type) else ()
    if of is Literal or Enum in bases:
        return kind
    if isinstance(of, type) and issubclass(of, Mapping):
        return _DICT[str, _written(given[1]) if given else Any]
    items = [each for each in given if each is not Ellipsis] or [Any]
    return _LIST[_either(items)] if isinstance(of, type) and issubclass(of, Iterable) else Any


def _either(kinds: Iterable[Any]) -> Any:
    return Union[tuple(map(_written, kinds))]  # noqa: UP007 (of several)


@cache
def _document(kind: Any) -> Any:
    """Return a class as a dictionary: what it has is there, but for axes and what is optional."""
    declared = _declared(kind, "document") if issubclass(kind, Answer) else kind
    return _TYPED(kind.__name__, _entries(kind)) if declared in (Any, kind) else _written(declared)


def _entries(kind: Any) -> dict[str, Any]:
    found = _entries(kind.WHOLE) if issubclass(kind, View) and kind.WHOLE else {}
    for each in fields(kind):
        if each.repr and each.name == "axes":
            found["axes"] = NotRequired[Annotated[AxisValues, Field(description=AXES)]]
        elif each.repr:
            where = next(base for base in kind.__mro__ if each.name in vars(base).get("__annotations__", ()))
            found[each.name] = _written(_resolved(each.type, where.__module__))
    for key in keys_of(kind):
        of = _written(_resolved(*_given(key)))
        of = Annotated[of, Field(description=key.__doc__)] if key.__doc__ else of
        found[key.name] = NotRequired[of] if key.optional else of
    return found


def _declared(kind: type, name: str) -> Any:
    """Return what a property of a class returns."""
    where = next(base for base in kind.__mro__ if name in vars(base))
    return _resolved(vars(where)[name].fget.__annotations__["return"], where.__module__)


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
