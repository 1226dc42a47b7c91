"""The configuration that a command is asked for: flags by key, merged with the task, the file and the GPUs here."""

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from budgets import catalogue
from budgets.errors import InputError
from budgets.hardware import whole_share
from planner.config import Resolved, file_layer, flag_layer, resolve, task_layers
from planner.config.layers import DEFAULT, with_base_rate
from planner.price.open_facts import MEAN_RESPONSE
from planner.tables import Layer
from rlplan.requests.flags import Request, flags_of
from rlplan.wording.numbers import names_in
from runner.machine import cpu_cores

THIS_MACHINE, CLUSTER = "the GPUs of this machine", "the GPUs at RAY_ADDRESS"
ACCELERATOR = "accelerator_type:"


def gpu_layers() -> list[Layer]:
    """Return what the GPUs here say of a configuration; nothing where there are none, or several kinds of them."""
    if address := os.environ.get("RAY_ADDRESS"):
        source, (kinds, count) = CLUSTER, _of_cluster(address)
    elif any(Path("/dev").glob("nvidia[0-9]*")):  # asking the driver takes a process
        from rlplan.actions.machine import list_gpus  # noqa: PLC0415

        gpus, _ = list_gpus()
        source, kinds, count = THIS_MACHINE, {gpu.name for gpu in gpus}, len(gpus)
    else:
        return []
    names = {catalogue_name(kind) for kind in kinds}
    name = names.pop() if len(names) == 1 else None
    if name is None or not count:
        return []
    per_node = catalogue.gpu(name).gpus_per_node  # of an odd number a run has whole shares
    whole = max(gpus for gpus in range(1, count + 1) if whole_share(gpus, per_node) == gpus)
    return [Layer(source, {"hardware": {"gpu": name, "gpus": whole}})]


def catalogue_name(device: str) -> str | None:
    """Return the catalogue's name of a device such as 'NVIDIA A100-SXM4-80GB'; None where it has none."""
    words = set(re.split(r"[^a-z0-9]+", device.casefold()))
    joined = {f"{a}{b}" for a in words for b in words}  # RTX 4090
    for name in sorted(catalogue.names("gpus"), key=len, reverse=True):
        model, _, memory = name.partition("-")
        if (model in words or model in joined) and (not memory or f"{memory}gb" in words or f"{memory}g" in words):
            return name
    return None


def _of_cluster(address: str) -> tuple[Collection[str], int]:
    """Return the kinds of GPUs of a Ray cluster and their number; none where it does not answer."""
    import ray

    with suppress(ConnectionError, RuntimeError, ValueError):
        ray.init(address, log_to_driver=False, logging_level="error")
        try:
            resources = ray.cluster_resources()
        finally:
            ray.shutdown()
        return {key.removeprefix(ACCELERATOR) for key in resources if key.startswith(ACCELERATOR)}, int(
            resources.get("GPU", 0)
        )
    return (), 0


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
    named_task = task or next((str(table["task"]) for table in sections if isinstance(table.get("task"), str)), None)
    from_task = task_layers(named_task, cpu_cores()) if named_task else []
    layers = [*from_task, *from_file, *flag_layer(flags)]
    resolved = resolve(layers)
    if {resolved.source("hardware.gpu"), resolved.source("hardware.gpus")} == {DEFAULT}:
        resolved = resolve([*gpu_layers(), *layers])
    return with_base_rate(resolved, base_score, f"step 0 of --from-log {log}")


def flagged(request: Request) -> dict[str, tuple[str, Any]]:
    """Return what is asked for by key of the configuration, each under its flag; names may be one text."""
    flags = {flag.key: (flag.named(name), getattr(request, name)) for name, flag in flags_of(type(request)).items()}
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
