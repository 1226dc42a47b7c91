"""What `rlplan propose` does, callable from Python: load the configuration, price the grid, store the plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from budgets.cost import Coefficients
from planner.checking import Section, explained
from planner.config import (
    Assumption,
    Layer,
    Resolved,
    assumptions,
    build_request,
    file_layer,
    flag_layer,
    resolve,
    resolved_values,
    task_layers,
)
from planner.proposals import Proposal, Request, propose
from planner.store import Store, open_store
from planner.store.engine import locate
from planner.store.schema import Candidate, Plan
from rlplan.actions.calibrating import coefficients_of
from rlplan.reading.plan_data import new_candidates, new_plan
from rlplan.wording.typed_numbers import names_in
from runner.machine import cpu_cores

DEFAULT_FILE = Path("rlplan.toml")
# What a plan can be asked for by flags and from Python, and which key of the configuration that sets.
KEYS = {
    "budget": "budget.gpu_hours",
    "model": "workload.model",
    "response_tokens": "workload.response_tokens",
    "mean_response_tokens": "workload.mean_response_tokens",
    "prompt_tokens": "workload.prompt_tokens",
    "difficulty": "workload.difficulty",
    "pass_rate": "workload.pass_rate",
    "pass_rates_file": "workload.pass_rates_file",
    "gpu": "hardware.gpu",
    "gpus": "hardware.gpus",
    "gpus_per_trial": "hardware.gpus_per_trial",
    "recipe": "recipe.name",
    "baseline": "proposal.baseline",
    "pilot_fraction": "pilot.fraction",
    "pilot_gpus": "pilot.gpus",
    "recipes": "axes.recipes",
    "models": "axes.models",
}


class AskedSection(Section):
    """What a command is asked for, each value under the name of its flag."""

    @classmethod
    def of(cls, asked: Mapping[str, object]) -> Self:
        """Return the request among named values; ConfigError for one that it cannot be."""
        try:
            return cls.model_validate({name: value for name, value in asked.items() if name in cls.model_fields})
        except ValidationError as error:
            raise explained(error, cls, {name: flag_of(name) for name in cls.model_fields}, "a flag") from error


def flag_of(name: str) -> str:
    """Return the flag that sets an argument."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A proposal with the name it is stored under and what it takes for granted."""

    name: str
    proposal: Proposal
    assumptions: list[Assumption]
    notices: list[str]


def load_configuration(
    file: Path | None = None, task: str | None = None, flags: Mapping[str, tuple[str, Any]] | None = None
) -> Resolved:
    """Merge defaults, task, file and flags; without a file named, ./rlplan.toml counts when it is there."""
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    from_file = [file_layer(file)] if file is not None else []
    named_task = task or _task_in(from_file)
    from_task = task_layers(named_task, cpu_cores()) if named_task else []
    return resolve([*from_task, *from_file, *flag_layer(flags or {})])


def flagged(asked: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return what of a plan is asked for by key of the configuration, each under its flag; names may be one text."""
    return {key: (flag_of(name), _as_configured(name, asked[name])) for name, key in KEYS.items() if name in asked}


def _as_configured(name: str, value: Any) -> Any:
    if name in ("recipes", "models") and value is not None:
        return names_in(value) if isinstance(value, str) else list(value)
    return str(value) if isinstance(value, Path) else value


def make_plan(
    resolved: Resolved, database: str, *, for_sweep: bool = False, require: Callable[[Plan], object] | None = None
) -> StoredPlan:
    """Propose allocations with what the database knows about costs, store the plan, and return it with its name.

    A plan that is made for a sweep has pilots, whether or not they are expected to pay. `require` refuses one before it
    is stored.
    """
    request = build_request(resolved)
    request = replace(request, pilots=replace(request.pilots, required=for_sweep))
    if _is_new(database):  # there is nothing to learn yet, and a refused proposal should leave no file behind
        draft = _Draft(propose(request), resolved, require)
        with open_store(database) as store:
            return draft.stored(store)
    with open_store(database) as store:
        return _Draft(propose(_calibrated(store, request)), resolved, require).stored(store)


class _Draft:
    """A plan before it is stored."""

    def __init__(self, proposal: Proposal, resolved: Resolved, require: Callable[[Plan], object] | None) -> None:
        self._proposal, self._assumptions = proposal, assumptions(proposal, resolved)
        values = resolved_values(proposal.request, resolved)
        self._plan = new_plan(proposal, values, self._assumptions, version("rlplan"))
        self._candidates = new_candidates(proposal)
        if require is not None:
            candidates = [Candidate(**vars(each)) for each in self._candidates]
            require(Plan(name="the plan", **vars(self._plan), candidates=candidates))

    def stored(self, store: Store) -> StoredPlan:
        """Store it."""
        name = store.save_plan(self._plan, self._candidates, created_at=datetime.now(UTC))
        return StoredPlan(name, self._proposal, self._assumptions, list(store.notices))


def _calibrated(store: Store, request: Request) -> Request:
    """Price from the steps that were measured with this GPU and each model; by the prior where there are none."""
    known: dict[str, Coefficients] = {}
    for variant in request.all_variants:
        if variant.workload.model.name not in known:
            known[variant.workload.model.name] = coefficients_of(
                store, variant.workload, request.hardware.gpu, variant.traits, variant.coefficients
            )
    return replace(
        request,
        coefficients=known[request.workload.model.name],
        variants=tuple(replace(each, coefficients=known[each.workload.model.name]) for each in request.variants),
    )


def _is_new(database: str) -> bool:
    place = locate(database)
    return isinstance(place, Path) and not place.exists()


def _task_in(layers: list[Layer]) -> str | None:
    """Return the task that a configuration file names, which decides over the defaults below that file."""
    for layer in layers:
        section = layer.tables.get("workload")
        if isinstance(section, dict) and isinstance(section.get("task"), str):
            return str(section["task"])
    return None
