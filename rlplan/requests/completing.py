"""What a shell offers when the tab key is pressed: names from the database, and values that a flag takes.

It runs with every press of the key, so that it imports next to nothing and is silent when something is wrong.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from urllib.parse import quote

import typer

from rlplan.wording.formats import ACTIONS, DEFAULT_DATABASE

BUSY_SECONDS = 0.2
MOST = 200  # names that are offered
POLICIES = ("rlplan", "asha", "hyperband", "median", "random", "full")
TRAINERS = ("builtin", "command", "trl", "verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime", "standin")
STATES = ("planned", "running", "paused", "finished", "pruned", "failed", "lost")

Offer = Callable[[str], list[str]]
_SWEEPS = "SELECT name FROM sweeps ORDER BY id DESC LIMIT ?"
_PLANS = "SELECT name FROM plans ORDER BY id DESC LIMIT ?"
_TRIALS = (
    "SELECT trials.name FROM trials JOIN sweeps ON sweeps.id = trials.sweep_id "
    "WHERE sweeps.name = coalesce(?, (SELECT name FROM sweeps ORDER BY id DESC LIMIT 1)) ORDER BY trials.id LIMIT ?"
)


def sweeps(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the names of sweeps, the newest first."""
    return _beginning(incomplete, _read(context, _SWEEPS))


def plans(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the names of plans, the newest first."""
    return _beginning(incomplete, _read(context, _PLANS))


def plans_and_sweeps(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the names of sweeps, and then those of plans."""
    return [*sweeps(context, incomplete), *plans(context, incomplete)]


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


def recipes(incomplete: str) -> list[str]:
    """Offer the recipes that come along, also behind others and a comma."""
    from planner.recipes.loading import recipe_names  # noqa: PLC0415

    return _listed(incomplete, recipe_names())


def models(incomplete: str) -> list[str]:
    """Offer the models of the catalogue, also behind others and a comma."""
    from budgets.catalogue import names  # noqa: PLC0415

    return _listed(incomplete, names("models"))


def gpus(incomplete: str) -> list[str]:
    """Offer the GPUs of the catalogue."""
    from budgets.catalogue import names  # noqa: PLC0415

    return _beginning(incomplete, names("gpus"))


def tasks(incomplete: str) -> list[str]:
    """Offer the embedded tasks."""
    from planner.config import embedded_tasks  # noqa: PLC0415

    return _beginning(incomplete, embedded_tasks())


def _beginning(incomplete: str, names: list[str] | tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _listed(incomplete: str, names: list[str] | tuple[str, ...]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in given]


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
