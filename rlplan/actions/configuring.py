"""The configuration that a command is asked for: flags and arguments by key, merged with the task and the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from budgets.errors import InputError
from planner.config import Resolved, file_layer, flag_layer, resolve, task_layers
from rlplan.requests.request import Request
from rlplan.wording.typed_numbers import names_in
from runner.machine import cpu_cores

Asked = TypeVar("Asked", bound=Request)
DEFAULT_FILE = Path("rlplan.toml")
# What a plan can be asked for by flags and from Python, and which key of the configuration that sets.
KEYS = {
    "budget": "budget.gpu_hours",
    "within": "budget.within",
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


def absent(database: str) -> Path | None:
    """Return the place of an SQLite database that is not there yet; None of any other."""
    from planner.store.engine import locate  # noqa: PLC0415  (takes longer to import than all else)

    place = locate(database)
    return place if isinstance(place, Path) and not place.exists() else None


def flag_of(name: str) -> str:
    """Return the flag that sets an argument."""
    return f"--{name.replace('_', '-')}"


def load_configuration(
    file: str | Path | None = None, task: str | None = None, flags: Mapping[str, tuple[str, Any]] | None = None
) -> Resolved:
    """Merge defaults, task, file and flags; without a file named, ./rlplan.toml counts when it is there."""
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    from_file = [file_layer(Path(file))] if file is not None else []
    # The task that a file names decides over the defaults below that file.
    sections = [section for layer in from_file if isinstance(section := layer.tables.get("workload"), dict)]
    named_task = task or next((str(each["task"]) for each in sections if isinstance(each.get("task"), str)), None)
    from_task = task_layers(named_task, cpu_cores()) if named_task else []
    return resolve([*from_task, *from_file, *flag_layer(flags or {})])


def flagged(asked: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return what of a plan is asked for by key of the configuration, each under its flag; names may be one text."""
    return {key: (flag_of(name), _as_configured(name, asked[name])) for name, key in KEYS.items() if name in asked}


def with_log(flags: Mapping[str, tuple[str, Any]], log: str | Path | None) -> Mapping[str, tuple[str, Any]]:
    """Return flags with the mean response length of a trainer's log; refused where both are given."""
    if log is None:
        return flags
    from planner.adopting.records import read_run  # noqa: PLC0415 (for a log alone)

    key = KEYS["mean_response_tokens"]
    if flags.get(key, ("", None))[1] is not None:
        raise InputError(f"--from-log {log} and --mean-response-tokens say the same thing twice: leave one out")
    mean = read_run(Path(log)).typical("response_tokens")
    if mean is None:
        raise InputError(f"--from-log {log}: no response lengths are in it; give --mean-response-tokens instead")
    return {**flags, key: (f"--from-log {log}", mean)}


def _as_configured(name: str, value: Any) -> Any:
    if name in ("recipes", "models") and value is not None:
        return names_in(value) if isinstance(value, str) else list(value)
    return str(value) if isinstance(value, Path) else value
