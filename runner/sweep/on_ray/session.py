"""A Ray Tune run from its start to its end, which opens leases as it is told; it decides nothing and keeps nothing.

Tune cannot run on the side of a Ray client (ray://host:port): for a driver outside of the cluster the session lives in
an actor of the cluster, and its events are fetched.
"""

import importlib
import os
import queue
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runner.sweep.on_ray import cluster
from runner.sweep.on_ray.messages import NAMESPACE, Mailbox, Message

CLIENT = "ray://"
_SECONDS_OF_A_CALL = 1.0
_SECONDS_OF_A_SWEEP = 10.0


@dataclass(frozen=True, slots=True)
class RayStart:
    """How a Ray process is to be started, and what all leases of its run have in common."""

    folder: str  # of the sweep
    tag: str  # of the sweep
    address: str | None  # of a cluster; None starts one here
    cpus: int  # of a cluster that is started here
    gpus: int | None  # None: as many as there are
    alone: bool = False  # whether a trial has all of this machine's GPUs
    runtime_env: dict[str, Any] = field(default_factory=dict)  # Ray's, of all that is started there
    driver: str = field(default_factory=lambda: secrets.token_hex(8))  # a name of its own, for what it starts
    directory: str = field(default_factory=os.getcwd)  # what relative paths in a configuration are relative to
    run: str = ""  # a name of this run's own
    temporary: str = ""  # for what Tune writes and nobody reads


class TuneSession:
    """Runs Tune in the thread that calls `run`; `do` may be called from any other."""

    def __init__(self, settings: RayStart, post: Callable[[Message], None]) -> None:
        """Open the mailbox. Ray must be connected."""
        import ray  # noqa: PLC0415

        self._settings = settings
        self._post = post
        self._box = f"mailbox-{settings.run}"
        self._leases: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._ends: dict[str, str] = {}  # by a new lease, the parked one whose worker it is to have
        # Where this process is: the box must not be lost with a node that is lost.
        here = _on_node(ray.get_runtime_context().get_node_id())
        self._mailbox = (
            ray.remote(Mailbox)
            .options(name=self._box, namespace=NAMESPACE, num_cpus=0, max_concurrency=10_000, scheduling_strategy=here)
            .remote()
        )

    def do(self, command: Message) -> None:
        """Obey the driver."""
        lease = str(command.get("lease"))
        match command["do"]:
            case "lease":
                self._tell(lease, {"do": "grant", "work": command["work"]})
                if command["ends"] is not None:
                    self._ends[lease] = command["ends"]
                names = ("tag", "driver", "folder", "directory")
                common = {name: getattr(self._settings, name) for name in names} | {"mailbox": self._box}
                self._leases.put({"lease": lease, **common, **command["place"]})
            case "recall":  # a worker that comes to it all the same finds nothing but its end
                self._mailbox.forget.remote(lease)
                self._tell(lease, {"do": "end"})
            case "alive":
                self._mailbox.alive.remote()
            case "release":
                self._tell(command["worker"], {"do": "release"})
            case "sweep":
                start_thread("sweep", lambda: self.sweep(command["workers"]))
            case "kill":
                start_thread("kill", lambda: self._kill(command["worker"], command["node"], command["pid"]))
            case "grant" | "extend" | "stop" | "end":
                self._tell(lease, {name: value for name, value in command.items() if name != "lease"})

    def run(self) -> None:
        """Run Tune until the session is closed or broken."""
        from ray import tune  # noqa: PLC0415

        from runner.sweep.on_ray.tune_parts import Assigned, Forwarding, LeaseTrainable  # noqa: PLC0415

        tune.Tuner(
            LeaseTrainable,
            tune_config=tune.TuneConfig(
                search_alg=Assigned(self._leases, self._handed),
                scheduler=Forwarding(self._posted),
                num_samples=-1,
                reuse_actors=True,
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(Path(self._settings.temporary) / "storage"),
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=0),
                log_to_file=False,
            ),
        ).fit()

    def end(self, workers: list[list[str]]) -> None:
        """Sweep for the last time; the caller ends next, and its leases with it."""
        self.sweep(workers)

    def watch_mailbox(self, lost: Callable[[str], object]) -> None:
        """Report when no worker can be told anything any more."""
        import ray  # noqa: PLC0415

        while True:
            try:
                ray.get(self._mailbox.live.remote())
            except (ray.exceptions.ActorDiedError, ray.exceptions.RayTaskError):
                lost("the mailbox of the workers has died")
                return
            except ray.exceptions.RayError:  # the way to it is cut for a moment
                time.sleep(_SECONDS_OF_A_CALL)

    def _handed(self, lease: str) -> None:
        # Only now: Tune keeps the parked lease's process for the new one if the new one waits already.
        if (parked := self._ends.pop(lease, None)) is not None:
            self._tell(parked, {"do": "end"})

    def _posted(self, message: Message) -> None:
        if message["event"] in ("over", "broken"):
            self._mailbox.forget.remote(message["lease"])
        self._post(message)

    def _tell(self, lease: str, message: Message) -> None:
        self._mailbox.tell.remote(lease, message)

    def sweep(self, workers: list[list[str]]) -> None:
        """End what lost workers have left behind on other machines, given as pairs of worker and node."""
        import ray  # noqa: PLC0415

        from runner.processes import sweep_orphans  # noqa: PLC0415

        tasks = []
        for worker, node in workers:
            task = ray.remote(sweep_orphans).options(num_cpus=0, max_retries=0, scheduling_strategy=_on_node(node))
            tasks.append(task.remote(self._settings.tag, worker))
        if tasks:
            ray.wait(
                tasks, num_returns=len(tasks), timeout=_SECONDS_OF_A_SWEEP
            )  # others are lost machines fail, and so they should

    def _kill(self, worker: str, node: str, pid: int) -> None:
        """Kill a worker that hears nothing any more, and what it has started."""
        import ray  # noqa: PLC0415

        from runner.processes import kill_worker  # noqa: PLC0415

        task = ray.remote(kill_worker).options(num_cpus=0, max_retries=0, scheduling_strategy=_on_node(node))
        ray.wait([task.remote(self._settings.tag, worker, pid)], timeout=_SECONDS_OF_A_SWEEP)


class SessionActor:
    """The actor: a session, whose events wait here until the client fetches them."""

    def __init__(self, settings: RayStart) -> None:
        os.environ.update(cluster.ENVIRONMENT)
        self._temporary = settings.temporary
        self._events: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._session = TuneSession(settings, self._events.put)
        start_thread("nodes", lambda: cluster.watch_nodes(self._nodes_are, self._is_lost))
        start_thread("mailbox", lambda: self._session.watch_mailbox(self._is_lost))
        start_thread("tune", self._session.run)

    def call(self, method: str, *arguments: Any) -> None:
        """Have the session do something."""
        getattr(self._session, method)(*arguments)

    def events(self, seconds: float) -> list[Message]:
        """Return what has happened, waiting for something."""
        try:
            events = [self._events.get(timeout=seconds)]
        except queue.Empty:
            return []
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def clear(self) -> None:
        """Remove what Tune has written."""
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _nodes_are(self, nodes: list[cluster.Node]) -> None:
        self._events.put({"event": "nodes", "nodes": [asdict(node) for node in nodes]})

    def _is_lost(self, reason: str) -> None:
        self._events.put({"event": "leaving", "reason": reason})


class HostedSession:
    """The client's side; it is used like a session."""

    def __init__(self, settings: RayStart, post: Callable[[Message], None]) -> None:
        """Have the session opened in the cluster."""
        import ray  # noqa: PLC0415

        self._post = post
        # Several calls at once: `events` waits while `do` must get in, and those of one thread stay in order.
        on_head = {"node:__internal_head__": 0.001}  # with which everything else would be lost too
        self._host: Any = (
            ray.remote(SessionActor).options(num_cpus=0, resources=on_head, max_concurrency=4).remote(settings)
        )
        for message in ray.get(self._host.events.remote(0.0)):  # an error of the start is raised here
            post(message)

    def do(self, command: Message) -> None:
        """Pass a command of the driver on."""
        self._call("do", command)

    def end(self, workers: list[list[str]]) -> None:
        """Sweep for the last time, remove what Tune has written, and take leave: else the cluster waits a while."""
        import ray  # noqa: PLC0415

        self._call("sweep", workers)
        ray.get(self._host.clear.remote())
        ray.shutdown()

    def _call(self, method: str, *arguments: Any) -> None:
        import ray  # noqa: PLC0415

        ray.get(self._host.call.remote(method, *arguments))

    def run(self) -> None:
        """Fetch events until the session is over; Ray's error when the cluster is lost."""
        import ray  # noqa: PLC0415

        while True:
            for message in ray.get(self._host.events.remote(_SECONDS_OF_A_CALL)):
                self._post(message)
                if message["event"] == "leaving":
                    return


def import_tune() -> None:
    """Import what `TuneSession.run` needs."""
    importlib.import_module("runner.sweep.on_ray.tune_parts")


def _on_node(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    return NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def _name(trial: Any) -> str:
    return f"lease-{trial.config['lease']}"


def start_thread(name: str, target: Callable[[], None]) -> None:
    """Run something beside Tune; it ends with the process."""
    threading.Thread(target=target, name=name, daemon=True).start()
