"""What a shell offers when the tab key is pressed: names from the database, and values that a flag takes.

It runs with every press of the key, so that it imports next to nothing and is silent when something is wrong.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from importlib import import_module
from urllib.parse import quote

import typer

from rlplan.wording.command_lines import ACTIONS, DEFAULT_DATABASE

BUSY_SECONDS = 0.2
MOST = 200  # names that are offered
POLICIES = ("rlplan", "asha", "hyperband", "median", "random", "full")
_DRIVEN = ("trl", "verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime", "tinker")
TRAINERS = ("builtin", "command", *_DRIVEN, "standin")
STATES = ("planned", "running", "paused", "finished", "pruned", "failed", "lost")

Offer = Callable[[str], list[str]]
_SWEEPS = "SELECT name FROM sweeps ORDER BY id DESC LIMIT ?"
_PLANS = "SELECT name FROM plans ORDER BY id DESC LIMIT ?"
_TRIALS = (
    "SELECT trials.name FROM trials JOIN sweeps ON sweeps.id = trials.sweep_id "
    "WHERE sweeps.name = coalesce(?, (SELECT name FROM sweeps ORDER BY id DESC LIMIT 1)) ORDER BY trials.id LIMIT ?"
)


def _named(*queries: str) -> Callable[[typer.Context, str], list[str]]:
    """Offer the names that queries find, the newest of each first."""

    def offer(context: typer.Context, incomplete: str) -> list[str]:
        return [name for query in queries for name in _beginning(incomplete, _read(context, query))]

    return offer


sweeps, plans, plans_and_sweeps = _named(_SWEEPS), _named(_PLANS), _named(_SWEEPS, _PLANS)
sweeps_and_trials = _named(_SWEEPS, "SELECT name FROM trials GROUP BY name ORDER BY max(id) DESC LIMIT ?")


def trials(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the names of the trials of the sweep that the line names, else of the newest."""
    # A flag that waits for its value keeps what stands before it from being read as the argument that it is.
    sweep = context.params.get("sweep") or next(iter(context.args), None)
    return _beginning(incomplete, _read(context, _TRIALS, sweep))


def one_of(*names: str) -> Offer:
    """Offer what a flag takes, such as the keys that a table can be sorted by."""
    return lambda incomplete: _beginning(incomplete, names)


def some_of(*names: str) -> Offer:
    """Offer what a flag takes, also behind others and a comma."""
    return lambda incomplete: _listed(incomplete, names)


policies = one_of(*POLICIES)
trainers = one_of(*TRAINERS)
trial_states = some_of(*STATES)
ranked_states = some_of(*STATES, "proposed")  # of allocations
actions = some_of(*ACTIONS)  # what a decision can be


def _known(module: str, function: str, *arguments: str, several: bool = False) -> Offer:
    """Offer what comes along, as a function of a module lists it; several also behind others and a comma."""

    def offer(incomplete: str) -> list[str]:
        names = getattr(import_module(module), function)(*arguments)
        return (_listed if several else _beginning)(incomplete, names)

    return offer


recipes = _known("planner.recipes.library", "recipe_names", several=True)
models = _known("budgets.catalogue", "names", "models", several=True)
gpus = _known("budgets.catalogue", "names", "gpus")
tasks = _known("planner.config", "embedded_tasks")


def _beginning(incomplete: str, names: list[str] | tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _listed(incomplete: str, names: list[str] | tuple[str, ...]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    names_before = before.split(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in names_before]


def _read(context: typer.Context, query: str, *values: str | None) -> list[str]:
    """Read names without the store, which takes longer to import than a person waits; of a database on a server none.

    What cannot be read yields nothing: a shell has no place for an error.
    """
    location = str(context.params.get("db") or os.environ.get("RLPLAN_DB") or DEFAULT_DATABASE)
    scheme, separator, rest = location.partition("://")
    if separator and not scheme.startswith("sqlite"):
        return []
    path = rest.removeprefix("/") if separator else os.path.expanduser(location)
    with (
        suppress(sqlite3.Error, OSError, ValueError),
        closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as database,
    ):
        return [str(row[0]) for row in database.execute(query, (*values, MOST))]
    return []
