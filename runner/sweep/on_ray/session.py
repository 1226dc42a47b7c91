"""What is asked of Ray: workers where there is room for them, each a plain actor, whose words are passed on.

It decides nothing.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from runner.ports.executor import Work
from runner.processes import kill_worker, sweep_orphans
from runner.sweep.on_ray.messages import Message, RayStart
from runner.sweep.on_ray.worker_process import WorkerProcess

_SECONDS_OF_A_SWEEP = 10.0
_SECONDS_BETWEEN_SIGNS = 5.0  # that workers have of the session, and of the driver behind it
_KEY = "RLPLAN_WORKER_KEY"  # no two workers have the same in their environment
_CALLS_AT_ONCE = 16  # of one worker: for its news, and for what it is told meanwhile


class Session:
    """Passes words on, from `run` in a thread of its own; `do` may be called from any other."""

    def __init__(self, start: RayStart, post: Callable[[Message], None]) -> None:
        """Ray must be connected."""
        self._start, self._post = start, post
        self._actors: dict[str, Any] = {}  # workers by the driver's keys
        self._loop = asyncio.new_event_loop()
        self._driver_heard_at = time.monotonic()

    def run(self) -> None:
        """Pass on what workers say, until the process ends."""
        self._loop.create_task(self._give_signs())
        self._loop.run_forever()

    def do(self, command: Message) -> None:
        """Obey the driver."""
        actor = self._actors.get(command.get("key", ""))
        match command["do"]:
            case "open":
                self._open(command["key"], command["place"], command["work"])
            case "alive":
                self._driver_heard_at = time.monotonic()
            case "sweep":
                start_thread("sweep", lambda: self.sweep(command["workers"]))
            case "kill":  # what hears nothing any more, and all that it has started
                start_thread("kill", lambda: self._on(command["node"], kill_worker, command["worker"], command["pid"]))
            case "recall" if actor is not None:
                ray.kill(actor)
            case _ if actor is not None:
                actor.tell.remote(command)

    def sweep(self, workers: list[list[str]]) -> None:
        """End what lost workers have left behind on other machines, given as pairs of worker and node."""
        sweeps = [threading.Thread(target=self._on, args=(node, sweep_orphans, worker)) for worker, node in workers]
        for each in sweeps:
            each.start()
        for each in sweeps:
            each.join()

    def _on(self, node: str, function: Callable[..., object], *arguments: object) -> None:
        """Call a function of this sweep's tag on a machine; on one that is lost it fails, and so it should."""
        there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        task = ray.remote(function).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
        ray.wait([task.remote(self._start.tag, *arguments)], timeout=_SECONDS_OF_A_SWEEP)

    def _open(self, key: str, place: Mapping[str, Any], work: Work) -> None:
        """Ask for a worker: the first bundle is its own, the others those of processes that it starts."""
        own = place["bundles"][0]
        names = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
        size = {"num_cpus": 0, **{names[kind]: amount for kind, amount in own.items()}}
        try:
            group = placement_group(place["bundles"], place["strategy"], **place["options"])
            there = PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
            # Who is cut off for a moment is called again: it hears and says nothing twice.
            calls = {"max_concurrency": _CALLS_AT_ONCE, "max_task_retries": -1}
            # All that a worker's process lives is charged, and Ray has some ready that nobody asked for: variables that
            # none of those has make it start one.
            alone = {"env_vars": {_KEY: key}}
            options = {**size, **calls, "runtime_env": alone, "scheduling_strategy": there}
            actor = ray.remote(WorkerProcess).options(**options).remote(self._start)
            actor.tell.remote({"do": "grant", "work": work})
        except Exception as error:  # whatever Ray refuses, the segment is given again
            self._broken(key, error)
            return
        self._actors[key] = actor
        asyncio.run_coroutine_threadsafe(self._pass_on(key, actor, group), self._loop)

    async def _pass_on(self, key: str, actor: Any, group: Any) -> None:
        """Pass on what a worker says until it is gone, and free what it occupied."""
        last = 0
        try:
            while True:
                for number, message in await asyncio.wrap_future(actor.news.remote(last).future()):
                    self._post({**message, "key": key})
                    last = number
        except Exception as error:  # whatever Ray raises, it is the worker's end
            self._broken(key, error)
        self._actors.pop(key)
        remove_placement_group(group)

    def _broken(self, key: str, error: Exception) -> None:
        """Report the end of a worker with the kind of its failure, and the last line of what Ray says."""
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        kind = "preempted" if getattr(error, "preempted", False) else "lost"
        if isinstance(error, OutOfMemoryError):
            kind, reason = "out-of-memory", f"Ray ended the worker because its machine ran out of memory: {reason}"
        elif isinstance(error, RayTaskError):
            kind = "error"
        self._post({"event": "broken", "key": key, "kind": kind, "reason": reason})

    async def _give_signs(self) -> None:
        while True:
            for actor in list(self._actors.values()):
                actor.hear.remote(time.monotonic() - self._driver_heard_at)
            await asyncio.sleep(_SECONDS_BETWEEN_SIGNS)


def start_thread(name: str, target: Callable[[], None]) -> None:
    """Run something beside; it ends with the process."""
    threading.Thread(target=target, name=name, daemon=True).start()
