"""Recipes by name or from a file of one's own, with what they inherit filled in."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from budgets.errors import ConfigError, UnknownNameError, suggest
from planner.recipes.schema import Recipe
from planner.tables import Layer, dotted_keys, explained, flattened, merged, read_tables

SHIPPED = Path(__file__).resolve().parent
DEFAULT = "default"
_OWN = ("name", "summary")  # what a file says about itself and does not hand on


class ExplainedValue(NamedTuple):
    """A value of a recipe, and where it is from."""

    key: str
    value: Any
    source: str


def load_recipe(name_or_path: str) -> Recipe:
    """Return a shipped recipe, in any case of its name, or the one that a .toml file describes.

    A file may inherit a shipped recipe, or another file whose path is relative to its own.
    """
    if _is_path(name_or_path):
        return _loaded(Path(name_or_path).expanduser())
    return _shipped(_known(name_or_path))


def recipe_names() -> list[str]:
    """List the recipes that come with rlplan."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


def explain(recipe: Recipe) -> list[ExplainedValue]:
    """List every value of a recipe with its source; `default` is that of rlplan's schema."""
    values = dict(flattened(recipe.model_dump(exclude={*_OWN, "sources"})))
    return [ExplainedValue(key, value, recipe.sources.get(key, DEFAULT)) for key, value in values.items()]


def _known(name: str) -> str:
    if name.casefold() not in recipe_names():
        raise UnknownNameError("recipe", name, recipe_names(), "The path of a .toml file works too")
    return name.casefold()


@cache
def _shipped(name: str) -> Recipe:
    return _loaded(SHIPPED / f"{name}.toml")


def _loaded(path: Path) -> Recipe:
    lineage = _lineage(path)
    tables, origins = merged(lineage)
    label = _label(path)
    stated = tables.get("sources", {})
    if isinstance(stated, Mapping):
        # A value that a later file changed without giving a source has that file's name.
        tables["sources"] = sources = dict(flattened(stated))
        age = {layer.source: place for place, layer in enumerate(lineage)}
        for key in dotted_keys(Recipe):
            written, explained_in = origins.get(key), origins.get(f"sources.{key}")
            if written and (explained_in is None or age[explained_in] < age[written]) and key not in _OWN:
                sources[key] = Path(written).name
    try:
        recipe = Recipe.model_validate({"name": path.stem, **tables})
    except ValidationError as error:
        raise explained(error, Recipe, origins, label, further_keys=["inherits"]) from error
    keys = [key for key in dotted_keys(Recipe) if key not in (*_OWN, "sources")]
    for key in recipe.sources:
        if key not in keys:
            where = origins[f"sources.{key}"]
            raise ConfigError(f"{where}: a source for the unknown key '{key}': {suggest(key, keys)}")
    if not _is_shipped(path) and recipe.name.casefold() in recipe_names():
        raise ConfigError(
            f"{label}: '{recipe.name}' is the name of a shipped recipe, and results are stored by it: give the file "
            "another name, or write one into it, such as name = 'mine'"
        )
    return recipe


def _lineage(path: Path) -> list[Layer]:
    """Return what a file and all that it inherits say, the eldest first."""
    layers: list[Layer] = []
    visited: list[Path] = []
    while True:
        visited.append(path.resolve())
        tables = read_tables(path, "recipe", f"shipped are {', '.join(recipe_names())}")
        parent = tables.pop("inherits", None)
        if layers:
            tables = {key: value for key, value in tables.items() if key not in _OWN}
        layers.insert(0, Layer(_label(path), tables))
        if parent is None:
            return layers
        path = _inherited(parent, path)
        if path.resolve() in visited:
            cycle = [layer.source for layer in layers[::-1]][visited.index(path.resolve()) :]
            raise ConfigError(
                f"{' inherits '.join([*cycle, cycle[0]])}: a recipe cannot inherit itself, remove one `inherits`"
            )


def _inherited(parent: object, child: Path) -> Path:
    if not isinstance(parent, str):
        raise ConfigError(
            f"{_label(child)}: inherits = {parent!r} should be the name of a recipe or the path of a .toml file"
        )
    if _is_path(parent):
        return child.parent / Path(parent).expanduser()
    try:
        return SHIPPED / f"{_known(parent)}.toml"
    except UnknownNameError as error:
        raise ConfigError(f"{_label(child)}: inherits an {error}") from error


def _is_path(text: str) -> bool:
    return text.endswith(".toml") or Path(text).name != text


def _label(path: Path) -> str:
    return f"recipe {path.stem}" if _is_shipped(path) else str(path)


def _is_shipped(path: Path) -> bool:
    return path.resolve().parent == SHIPPED
