"""The GPUs that are here, as the catalogue has them: of the Ray cluster at RAY_ADDRESS, else of this machine."""

import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from budgets import catalogue
from budgets.hardware import whole_share
from planner.tables import Layer

THIS_MACHINE, CLUSTER = "the GPUs of this machine", "the GPUs at RAY_ADDRESS"
ACCELERATOR = "accelerator_type:"


def gpu_layers() -> list[Layer]:
    """Return what the GPUs here say of a configuration; nothing where there are none, or several kinds of them."""
    if address := os.environ.get("RAY_ADDRESS"):
        source, (kinds, count) = CLUSTER, _of_cluster(address)
    elif any(Path("/dev").glob("nvidia[0-9]*")):  # asking the driver takes a process
        from rlplan.doctor.machine import list_gpus  # noqa: PLC0415

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
