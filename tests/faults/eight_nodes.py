"""Eight Ray nodes of eight declared GPUs on two hosts, which are network namespaces with a link between them."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.faults.torment import ROOT
from tests.namespaces import ip, joined, within

PORT = 6397
NODES, GPUS = 4, 8  # of a host, and of each of its nodes
_WORKER_PORTS = 20_000, 800  # of the first node of a host, and how many each has
# A dead node is noticed after about ten seconds, and one on a busy machine is not taken for one.
_ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": str(ROOT),
}


@dataclass(frozen=True)
class TwoHosts:
    """The hosts by their names and addresses; the head of the cluster is on the first."""

    hosts: Mapping[str, str]
    folder: str  # of Ray's own files: short, since it begins the names of sockets
    environment: Mapping[str, str] = field(default_factory=lambda: {**os.environ, **_ENVIRONMENT})

    @property
    def address(self) -> str:
        """Where a driver joins."""
        return f"{self.hosts[self.first]}:{PORT}"

    @property
    def first(self) -> str:
        """The name of the host with the head."""
        return next(iter(self.hosts))

    @property
    def second(self) -> str:
        """The name of the other one."""
        return next(reversed(self.hosts))

    def begin(self, host: str) -> None:
        """Start the nodes of a host, one after the other: two that start at once would take the same socket."""
        for place in range(NODES):
            if host == self.first and place == 0:
                head = ("--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self.folder}")
                self._start(host, place, *head)
            else:
                self._start(host, place, f"--address={self.address}")

    def kill_node_of(self, worker: int) -> None:
        """Kill the node that a process of a worker belongs to."""
        next(each for each in psutil.Process(worker).parents() if each.name() == "raylet").kill()

    def clear(self, host: str) -> None:
        """End what is left on a host."""
        for pid in ip("netns", "pids", host).split():
            if psutil.pid_exists(int(pid)):
                psutil.Process(int(pid)).kill()

    def link(self, state: str) -> None:
        """Take the link between the hosts `down`, or `up` again."""
        ip("-n", self.first, "link", "set", self.first, state)

    def _start(self, host: str, place: int, *arguments: str) -> None:
        first, many = _WORKER_PORTS
        ports = {
            "dashboard-agent-listen-port": 52_400 + place,
            "dashboard-agent-grpc-port": 52_500 + place,
            "runtime-env-agent-port": 52_600 + place,
            "metrics-export-port": 52_700 + place,
            "min-worker-port": first + place * many,
            "max-worker-port": first + (place + 1) * many - 1,
        }
        size = ["--num-cpus=4", f"--num-gpus={GPUS}", "--object-store-memory=83886080"]
        own = [f"--node-ip-address={self.hosts[host]}", "--disable-usage-stats"]
        log = Path(f"{self.folder}-{host}-{place}.log")  # not a pipe, which what is started would keep open
        with log.open("wb") as output:
            code = subprocess.call(
                [
                    *within(host),
                    *(sys.executable, "-m", "ray.scripts.scripts", "start", *arguments, *size, *own),
                    *(f"--{name}={port}" for name, port in ports.items()),
                ],
                env=dict(self.environment),
                stdout=output,
                stderr=output,
            )
        # After half a minute Ray gives up waiting for its node, which joins when it can.
        assert code == 0 or "timed out during startup" in (said := log.read_text()), said


@contextmanager
def eight_nodes(hosts: Mapping[str, str]) -> Iterator[TwoHosts]:
    """Start all of it; nothing is left of it in the end."""
    folder = tempfile.mkdtemp(prefix="rlp-", dir="/tmp")
    try:
        with joined(hosts):
            cluster = TwoHosts(hosts, folder)
            for host in hosts:
                cluster.begin(host)
            yield cluster
    finally:
        for path in Path(folder).parent.glob(f"{Path(folder).name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
