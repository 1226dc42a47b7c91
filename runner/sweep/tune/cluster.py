"""How a process joins a Ray cluster or starts one of its own, what the cluster has, and how its end is noticed."""

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

CLIENT = "ray://"  # how the address begins of a cluster that the driver is outside of
_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_BETWEEN_COUNTS = 2.0
GIGABYTE = 1e9
_SILENT = 30.0  # seconds without an answer after which the head counts as lost

# Ray phones nobody; a lost head is noticed within half a minute.
ENVIRONMENT = {
    "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "10",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "30",
    # Of Tune: nothing of it is stored, loggers are those that were asked for, trials wait for room without a limit.
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster: what it has, and what of that nobody uses now."""

    node: str
    host: str
    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float
    memory_gb: float = math.inf
    free_memory_gb: float = math.inf
    labels: dict[str, str] = field(default_factory=dict)


def connect(
    address: str | None, cpus: int, gpus: int | None, temporary: str, runtime_env: Mapping[str, Any] | None = None
) -> None:
    """Join the cluster at an address, or start one on this machine."""
    import ray  # noqa: PLC0415

    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    common |= {"runtime_env": dict(runtime_env)} if runtime_env else {}
    if address is not None:
        ray.init(address, **common)
        if address.startswith(CLIENT):  # Tune asks the node for a folder, and a client has none
            ray._private.worker._global_node = SimpleNamespace(get_session_dir_path=lambda: temporary)
        return
    ray.init(
        "local",  # whatever RAY_ADDRESS says
        num_cpus=cpus,
        num_gpus=gpus,
        include_dashboard=False,
        _temp_dir=temporary,
        # No process is started before somebody needs it.
        _system_config={"prestart_worker_first_driver": False, "enable_worker_prestart": False},
        **common,
    )


def take_leave(address: str | None) -> None:
    """Tell a cluster that its client is gone: else it waits a while for it to come back."""
    import ray  # noqa: PLC0415

    if address is not None and address.startswith(CLIENT):
        ray._private.worker._global_node = None
        ray.shutdown()


def nodes() -> list[Node]:
    """Return the machines that live."""
    import ray  # noqa: PLC0415

    free = ray._private.state.available_resources_per_node()
    return [
        Node(
            node["NodeID"],
            node["NodeManagerHostname"],
            node["Resources"].get("CPU", 0.0),
            node["Resources"].get("GPU", 0.0),
            free.get(node["NodeID"], {}).get("CPU", 0.0),
            free.get(node["NodeID"], {}).get("GPU", 0.0),
            node["Resources"].get("memory", 0.0) / GIGABYTE,
            free.get(node["NodeID"], {}).get("memory", 0.0) / GIGABYTE,
            dict(node.get("Labels") or {}),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def nodes_of_this_process() -> list[str]:
    """Return the node of each bundle that this actor's placement group has, in their order; none without a group."""
    from ray.util.placement_group import get_current_placement_group, placement_group_table  # noqa: PLC0415

    group = get_current_placement_group()
    if group is None:
        return []
    places: dict[int, str] = placement_group_table(group)["bundles_to_node_id"]
    return [node for _, node in sorted(places.items())]


def _nodes_seen_from_head() -> list[Node]:
    """Return the machines that live, for a client, who knows too little of them by itself."""
    import ray  # noqa: PLC0415

    on_head = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}}
    alive: list[Node] = ray.get(ray.remote(nodes).options(**on_head).remote())
    return alive


def watch_nodes(address: str, changed: Callable[[list[Node]], None], lost: Callable[[str], None]) -> None:
    """Report every change, and the end of the cluster or of this machine's part in it, which a client has none of."""
    import ray  # noqa: PLC0415

    outside = address.startswith(CLIENT)
    look, here = (_nodes_seen_from_head, "") if outside else (nodes, ray.get_runtime_context().get_node_id())
    before: list[Node] = []
    answered = time.monotonic()
    while True:
        try:
            now = look()
        except Exception as error:  # whatever Ray raises: its head does not answer
            if time.monotonic() - answered > _SILENT:
                lost(f"Ray's head does not answer ({error})")
                return
            time.sleep(_SECONDS_BETWEEN_COUNTS)
            continue
        answered = time.monotonic()
        if here and here not in [node.node for node in now]:
            lost("the part of Ray on this machine is dead")
            return
        if now != before:
            changed(now)
            before = now
        time.sleep(_SECONDS_BETWEEN_COUNTS)


def watch_servers(lost: Callable[[str], None]) -> None:
    """Report the death of a server of the cluster that this process has started."""
    import psutil  # noqa: PLC0415

    started = psutil.Process(os.getpid()).children()
    servers = [(process, process.name()) for process in started if process.name() in ("raylet", "gcs_server")]
    while True:
        for process, name in servers:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                lost(f"Ray's {name} has died")
                return
        time.sleep(_SECONDS_BETWEEN_LOOKS)
