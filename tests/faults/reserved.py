"""What a worker does with a reservation of three nodes: `python -m tests.faults.reserved ADDRESS FOLDER`.

The worker's findings are printed as JSON; then processes run on all its nodes until something ends it.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from planner.config.trainer import Patience
from runner.processes import SWEEP_TAG, WORKER_TAG
from runner.trainers.driver import Attempt, Launch
from runner.trainers.hosts import Handle, hosts_of_this_trial
from runner.trainers.launch import in_own_ray

NODES, GPUS = 3, 8
TAG, WORKER = "rlplan-test-reserved", "worker"
SEES = "import ray; ray.init(log_to_driver=False); print('nodes', len(ray.nodes()), ray.cluster_resources()['GPU'])"
SLEEPS = ("sh", "-c", "setsid sleep 1000 & exec sleep 1000")


class Worker:
    def __init__(self, folder: Path) -> None:
        os.environ.update({SWEEP_TAG: TAG, WORKER_TAG: WORKER})
        self._folder = folder

    def findings(self) -> dict[str, Any]:
        hosts = hosts_of_this_trial(NODES)
        attempt = Attempt(self._folder, 1, 0, 1, None, tuple(host.address for host in hosts))
        logs = [self._folder / f"{rank}.log" for rank in range(NODES)]
        tells = ("sh", "-c", "echo $RANK has $CUDA_VISIBLE_DEVICES; exit $RANK")
        told = [host.start(tells, {"RANK": str(rank)}, self._folder, logs[rank]) for rank, host in enumerate(hosts)]
        found: dict[str, Any] = {"gpus": [host.gpus for host in hosts], "codes": [waited(one) for one in told]}
        found["logs"] = [log.read_text() for log in logs]
        command = Launch((sys.executable, "-c", SEES))
        handles = []
        for rank, host in enumerate(hosts):
            launch = in_own_ray(command, attempt, rank, sys.executable, GPUS, Patience())
            for name, text in launch.files.items():
                (self._folder / name).write_text(text)
            handles.append(host.start(launch.argv, {}, self._folder, self._folder / f"ray-{rank}.log"))
        while all(handle.poll() is None for handle in handles):
            time.sleep(0.1)
        found["own_ray"] = [handles[0].poll(), (self._folder / "ray-0.log").read_text()]
        for handle in handles:
            handle.kill()
        return found

    def sleep(self) -> int:
        for host in hosts_of_this_trial(NODES):
            host.start(SLEEPS, {}, self._folder, self._folder / "sleeping.log")
        return os.getpid()


def waited(handle: Handle) -> int:
    while (code := handle.poll()) is None:
        time.sleep(0.1)
    return code


def main(address: str, folder: str) -> None:
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init(address, log_to_driver=False)
    group = ray.util.placement_group([{"CPU": 1, "GPU": GPUS}] * NODES, "STRICT_SPREAD")
    first = PlacementGroupSchedulingStrategy(group, 0)
    place = {"num_cpus": 1, "num_gpus": GPUS, "scheduling_strategy": first}
    worker = ray.remote(Worker).options(**place).remote(Path(folder))
    found = ray.get(worker.findings.remote())
    sys.stdout.write(json.dumps({**found, "pid": ray.get(worker.sleep.remote())}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
