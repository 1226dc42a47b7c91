"""The configuration that a command is asked for: flags and arguments by key, merged with the task and the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.config import Resolved, file_layer, flag_layer, resolve, task_layers
from planner.config.layers import DEFAULT, with_base_rate
from planner.price.open_facts import MEAN_RESPONSE
from rlplan.actions.own_gpus import gpu_layers
from rlplan.requests.request import Request, flags_of
from rlplan.wording.typed_numbers import names_in
from runner.machine import cpu_cores

DEFAULT_FILE = Path("rlplan.toml")
BUDGET = "budget.gpu_hours"


def absent(database: str) -> Path | None:
    """Return the place of an SQLite database that is not there yet; None of any other."""
    from planner.store.engine import locate  # noqa: PLC0415  (takes longer to import than all else)

    place = locate(database)
    return place if isinstance(place, Path) and not place.exists() else None


def flag_of(name: str) -> str:
    """Return the flag that sets an argument."""
    return f"--{name.replace('_', '-')}"


def load_configuration(
    file: str | Path | None = None,
    task: str | None = None,
    flags: Mapping[str, tuple[str, Any]] | None = None,
    log: str | Path | None = None,
) -> Resolved:
    """Merge defaults, task, file and flags; without a file named, ./rlplan.toml counts when it is there.

    A trainer's `log` says how long responses are and, where nobody states it, the base pass rate.
    """
    flags, base_score = _with_log(flags or {}, log)
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    from_file = [file_layer(Path(file))] if file is not None else []
    # The task that a file names decides over the defaults below that file.
    sections = [section for layer in from_file if isinstance(section := layer.tables.get("workload"), dict)]
    named_task = task or next((str(each["task"]) for each in sections if isinstance(each.get("task"), str)), None)
    from_task = task_layers(named_task, cpu_cores()) if named_task else []
    layers = [*from_task, *from_file, *flag_layer(flags)]
    resolved = resolve(layers)
    if {resolved.source("hardware.gpu"), resolved.source("hardware.gpus")} == {DEFAULT}:
        resolved = resolve([*gpu_layers(), *layers])
    return with_base_rate(resolved, base_score, f"step 0 of --from-log {log}")


def flagged(asked: Request) -> dict[str, tuple[str, Any]]:
    """Return what is asked for by key of the configuration, each under its flag; names may be one text."""
    flags = {flag.key: (flag.named(name), getattr(asked, name)) for name, flag in flags_of(type(asked)).items()}
    values = {key: (flag, _as_configured(key, value)) for key, (flag, value) in flags.items() if key is not None}
    named, amount = values.get(BUDGET, ("", None))
    if isinstance(amount, str):  # an amount of money
        values["budget.dollars"] = (named, float(amount.removeprefix("$")))
        del values[BUDGET]
    return values


def _with_log(
    flags: Mapping[str, tuple[str, Any]], log: str | Path | None
) -> tuple[Mapping[str, tuple[str, Any]], float | None]:
    """Return flags with the mean response length of a trainer's log, refused where both are given; and its step 0."""
    if log is None:
        return flags, None
    from planner.scripts.records import read_run  # noqa: PLC0415 (for a log alone)

    if flags.get(MEAN_RESPONSE, ("", None))[1] is not None:
        raise InputError(
            "{from_log} and {mean_response_tokens} say the same thing twice: leave one out",
            from_log=log,
            mean_response_tokens=None,
        )
    run = read_run(Path(log))
    mean = run.typical("response_tokens")
    if mean is None:
        raise InputError(
            "{from_log}: no response lengths are in it; give {mean_response_tokens} instead",
            from_log=log,
            mean_response_tokens=None,
        )
    return {**flags, MEAN_RESPONSE: (f"--from-log {log}", mean)}, run.base_score


def _as_configured(key: str, value: Any) -> Any:
    if key.startswith("axes.") and value is not None:
        return names_in(value) if isinstance(value, str) else list(value)
    return str(value) if isinstance(value, Path) else value
