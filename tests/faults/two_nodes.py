"""Two Ray nodes on this machine, which a test can join and one of which it can kill."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from runner.processes import SWEEP_TAG, sweep_orphans, tagged

PROMPT = {  # seconds until a dead node is noticed, which take a quarter of a minute otherwise
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True)
class TwoNodes:
    address: str
    client_address: str
    head: psutil.Process  # its raylet
    other: psutil.Process
    tag: str
    places: tuple[str, ...]  # of the head: ports and a folder

    def runs_on(self, node: psutil.Process, pid: int) -> bool:
        return node in psutil.Process(pid).parents()

    def come_back_alone(self) -> None:
        """Kill all of Ray, and start the head again without the other node."""
        sweep_orphans(self.tag)
        start_head(self.tag, self.places)


@contextmanager
def two_nodes(folder: Path, tag: str) -> Iterator[TwoNodes]:
    """Start a head and a second node with a CPU each; whatever of them is left in the end is killed."""
    port = _free_port()
    address = f"127.0.0.1:{port}"
    try:
        client = _free_port()
        places = (f"--port={port}", f"--ray-client-server-port={client}", f"--temp-dir={folder}")
        start_head(tag, places)
        (head,) = _raylets(tag)
        _start(tag, f"--address={address}")
        (other,) = [raylet for raylet in _raylets(tag) if raylet != head]
        yield TwoNodes(address, f"ray://127.0.0.1:{client}", head, other, tag, places)
    finally:
        sweep_orphans(tag)


def start_head(tag: str, places: tuple[str, ...]) -> None:
    """Start the node that a cluster begins with."""
    _start(tag, "--head", *places, "--include-dashboard=false")


def _start(tag: str, *arguments: str) -> None:
    ports = [f"--dashboard-agent-listen-port={_free_port()}", f"--runtime-env-agent-port={_free_port()}"]
    common = ["--num-cpus=1", "--node-ip-address=127.0.0.1", "--disable-usage-stats", *ports]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *arguments, *common]
    environment = {**os.environ, **PROMPT, SWEEP_TAG: tag}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _raylets(tag: str) -> list[psutil.Process]:
    processes = [psutil.Process(pid) for pid in tagged({f"{SWEEP_TAG}={tag}"})]
    return [process for process in processes if process.name() == "raylet"]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
