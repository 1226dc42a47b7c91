"""Ray nodes on this machine, each with GPUs that are declared, of which a test can kill one.

They live in a process of their own, as `python -m tests.faults.many_nodes NODES GPUS FOLDER`, and end with it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from runner.processes import SWEEP_TAG, end_session, sweep_orphans
from tests.faults.two_nodes import PROMPT

ROOT = Path(__file__).resolve().parents[2]
CPUS = 4  # that each node declares


@dataclass(frozen=True)
class ManyNodes:
    address: str
    raylets: dict[str, int]  # process numbers by node, the head's first

    @property
    def head(self) -> str:
        return next(iter(self.raylets))

    def kill(self, node: str) -> None:
        psutil.Process(self.raylets[node]).kill()


@contextmanager
def many_nodes(folder: Path, tag: str, nodes: int, gpus: int) -> Iterator[ManyNodes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.many_nodes", str(nodes), str(gpus), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **PROMPT, SWEEP_TAG: tag},
        start_new_session=True,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = next((line for line in process.stdout if line.startswith("{")), None)
        assert found is not None, "the nodes have not started"
        yield ManyNodes(**json.loads(found))
    finally:
        process.kill()
        end_session(process.pid)
        process.communicate()
        sweep_orphans(tag)


def _serve(nodes: int, gpus: int, folder: str) -> None:
    from ray.cluster_utils import Cluster

    size = {"num_cpus": CPUS, "num_gpus": gpus, "object_store_memory": 80 * 2**20}
    cluster = Cluster(True, head_node_args={**size, "include_dashboard": False, "temp_dir": folder})
    raylets = {cluster.head_node.node_id: cluster.head_node.all_processes["raylet"][0].process.pid}
    for _ in range(nodes - 1):
        node = cluster.add_node(**size)
        raylets[node.node_id] = node.all_processes["raylet"][0].process.pid
    sys.stdout.write(json.dumps({"address": cluster.address, "raylets": raylets}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
