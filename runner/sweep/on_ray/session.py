"""A Ray Tune run from its start to its end, which opens leases as it is told; it decides nothing and keeps nothing."""

import importlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.sweep.on_ray.grants import NAMESPACE, Grants
from runner.sweep.on_ray.messages import Message


@dataclass(frozen=True, slots=True)
class Settings:
    """What all leases of a run have in common."""

    tag: str  # of the sweep
    run: str  # a name of this run's own
    folder: str  # of the sweep
    directory: str  # the driver's working directory: what relative paths in a configuration are relative to
    temporary: str  # for what Tune writes and nobody reads


class Session:
    """Runs Tune in the thread that calls `run`; `do` may be called from any other."""

    def __init__(self, settings: Settings, post: Callable[[Message], None]) -> None:
        """Open the letter box. Ray must be connected."""
        import ray  # noqa: PLC0415

        self._settings = settings
        self._post = post
        self._box = f"grants-{settings.run}"
        self._leases: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._ends: dict[str, str] = {}  # by a new lease, the parked one whose worker it is to have
        # Where this process is: the box must not be lost with a node that is lost.
        here = _on_node(ray.get_runtime_context().get_node_id())
        self._grants = (
            ray.remote(Grants)
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
                common = {"tag": self._settings.tag, "folder": self._settings.folder, "grants": self._box}
                place = {"directory": self._settings.directory, "bundles": command["bundles"]}
                self._leases.put({"lease": lease, **common, **place})
            case "release":
                self._tell(command["worker"], {"do": "release"})
            case "grant" | "stop" | "end":
                self._tell(lease, {name: value for name, value in command.items() if name != "lease"})

    def run(self) -> None:
        """Run Tune until the session is closed or broken."""
        from ray import tune  # noqa: PLC0415

        from runner.sweep.on_ray.shells import Assigned, Forwarding  # noqa: PLC0415
        from runner.sweep.on_ray.trainable import Lease  # noqa: PLC0415

        tune.Tuner(
            Lease,
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

    def end(self, workers: list[list[str]], seconds: float) -> None:
        """Sweep for the last time; the caller ends next, and its leases with it."""
        self.sweep(workers, seconds)

    def wait_for_the_end_of_the_letter_box(self) -> None:
        """Return when no worker can be told anything any more."""
        import ray  # noqa: PLC0415

        try:
            ray.get(self._grants.live.remote())
        except ray.exceptions.RayError:
            return

    def _handed(self, lease: str) -> None:
        # Only now: Tune keeps the parked lease's process for the new one if the new one waits already.
        if (parked := self._ends.pop(lease, None)) is not None:
            self._tell(parked, {"do": "end"})

    def _posted(self, message: Message) -> None:
        if message["event"] in ("over", "broken"):
            self._grants.forget.remote(message["lease"])
        self._post(message)

    def _tell(self, lease: str, message: Message) -> None:
        self._grants.tell.remote(lease, message)

    def sweep(self, workers: list[list[str]], seconds: float) -> None:
        """End what lost workers have left behind on other machines, given as pairs of worker and node."""
        import ray  # noqa: PLC0415

        from runner.sweep.orphans import sweep_orphans  # noqa: PLC0415

        tasks = []
        for worker, node in workers:
            task = ray.remote(sweep_orphans).options(num_cpus=0, max_retries=0, scheduling_strategy=_on_node(node))
            tasks.append(task.remote(self._settings.tag, worker))
        if tasks:
            ray.wait(tasks, num_returns=len(tasks), timeout=seconds)  # those on lost machines fail, and so they should


def import_tune() -> None:
    """Import what `Session.run` needs."""
    importlib.import_module("runner.sweep.on_ray.shells")


def _on_node(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    return NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def _name(trial: Any) -> str:
    return f"lease-{trial.config['lease']}"


def start_thread(name: str, target: Callable[[], None]) -> None:
    """Run something beside Tune; it ends with the process."""
    threading.Thread(target=target, name=name, daemon=True).start()
