# mypy: disable-error-code=misc
"""The three parts that Ray Tune asks of its user: what hands out leases, what hears of them, and what serves one.

They are imported in Ray's processes alone, so they import Ray outright. Tune is never told what it could decide from.
"""

import json
import queue
from collections.abc import Callable
from typing import Any

from ray import cloudpickle
from ray.exceptions import OutOfMemoryError, RayTaskError
from ray.tune import PlacementGroupFactory, Trainable
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from runner.sweep.on_ray.messages import Message
from runner.sweep.on_ray.worker_process import WorkerProcess

MESSAGES = "messages"

Post = Callable[[Message], None]

_process: list[WorkerProcess] = []  # one, from the first lease that this process serves


class Assigned(Searcher):
    """Hands out the leases that the driver has assigned; the end of its queue is None."""

    def __init__(self, leases: "queue.SimpleQueue[Message | None]", handed: Callable[[str], None]) -> None:
        """`handed` hears of each lease that Tune takes."""
        super().__init__()
        self._leases = leases
        self._handed = handed
        self._live: set[str] = set()
        self._finished = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave nothing in the copy that Tune makes of what it was started with."""
        return {}

    def suggest(self, trial_id: str) -> Any:
        """Return the next lease's configuration, None when there is none now, FINISHED at the end."""
        try:
            # While no lease is open Tune would sleep for a second between two questions: then waiting here is quicker.
            lease = None if self._finished else self._leases.get(block=not self._live)
        except queue.Empty:
            return None
        if lease is None:
            self._finished = True
            return Searcher.FINISHED
        self._live.add(trial_id)
        self._handed(lease["lease"])
        return lease

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Note that a lease is over."""
        self._live.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Keep nothing: the database is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


class Forwarding(FIFOScheduler):
    """Passes on what workers report and decides nothing."""

    def __init__(self, post: Post) -> None:
        super().__init__()
        self._post = post

    def __getstate__(self) -> dict[str, Any]:
        """Leave nothing in the copy that Tune makes of what it was started with."""
        return {}

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Pass a worker's messages on."""
        self._forward(trial, result)
        return str(TrialScheduler.CONTINUE)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Pass a lease's last messages on: Tune shows a result that is `done` here alone."""
        self._forward(trial, result)

    def _forward(self, trial: Trial, result: dict[str, Any]) -> None:
        for message in json.loads(result[MESSAGES]):
            self._post({**message, "lease": trial.config["lease"]})

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Say that a lease has ended otherwise than by its own word, and whether its process is gone."""
        kind, reason = _explained(trial)
        self._post({"event": "broken", "lease": trial.config["lease"], "kind": kind, "reason": reason})

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return the lease that has waited longest, looking only at those that are not over."""
        return next((trial for trial in tune_controller.get_live_trials() if trial.status == Trial.PENDING), None)


class LeaseTrainable(Trainable):
    """One lease: segments of one trial, one after the other, on one worker.

    Each call of `step` waits for news of the worker and hands them over; the training does not wait for the calls.

    The first call begins the lease, and not `setup`: where a cluster has room, Tune may start a process for a lease and
    then give it to one that has just become free. The former is ended unused, and must take none of its messages.
    """

    _lease: str | None = None  # that is to begin

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """Return what the lease occupies: the first bundle is the worker's, the others those of processes it starts."""
        return PlacementGroupFactory(config["bundles"], config["strategy"], **config["options"])

    def setup(self, config: dict[str, Any]) -> None:
        """Be ready in this process, where a lease may have been served before."""
        if not _process:
            _process.append(WorkerProcess(config))
        self._lease = config["lease"]

    def step(self) -> dict[str, Any]:
        """Return what has happened; done once the lease is over."""
        if self._lease is not None:
            _process[0].begin(self._lease)
            self._lease = None
        messages = _process[0].news()
        # One string, because Tune copies and flattens whatever else is in a result.
        return {MESSAGES: json.dumps(messages), "done": messages[-1]["event"] == "over"}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Serve another lease in the same process, where everything is imported already."""
        self._lease = new_config["lease"]
        return True

    def cleanup(self) -> None:
        """Leave; the process ends after this."""
        _process[0].end()


def _explained(trial: Trial) -> tuple[str, str]:
    """Return the kind of failure behind an error that Tune has written down for a lease, and its last line."""
    try:
        with open(trial.pickled_error_file, "rb") as file:
            error: Exception = cloudpickle.load(file)  # written by this process a moment ago
    except (OSError, TypeError):
        return "lost", "Ray Tune gives no reason"
    reason = (str(error).strip().splitlines() or [""])[-1]
    if isinstance(error, OutOfMemoryError):
        return "out-of-memory", f"Ray ended the worker because its machine ran out of memory: {reason}"
    if isinstance(error, RayTaskError):
        return "error", reason
    if getattr(error, "preempted", False):
        return "preempted", reason
    return "lost", reason
