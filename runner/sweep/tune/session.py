# mypy: disable-error-code=misc
"""Runs Ray Tune: it starts, pauses and ends the trials that the driver asks for, whose words are passed on.

Tune is started anew with each session and restores nothing: the database is the truth. What to train, for how long and
where is the driver's decision; Tune's are the life of a trial, its placement group, and which actor is used again.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ray
from ray import cloudpickle, tune
from ray.exceptions import OutOfMemoryError, RayTaskError
from ray.tune import Callback, PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from runner.processes import kill_worker, sweep_orphans
from runner.sweep.tune.messages import Message, RayStart
from runner.sweep.tune.trainable import LEAVING, MESSAGES, YIELDED, TrialOnWorker

_SECONDS_OF_A_SWEEP = 10.0
_SECONDS_BETWEEN_SIGNS = 5.0  # that workers have of the session, and of the driver behind it

Post = Callable[[Message], None]


@dataclass(frozen=True)
class Opening:
    """A segment that waits for its trial to be started on a worker."""

    key: str  # of the worker, by which the driver speaks of it
    resources: PlacementGroupFactory
    work: Any


class Session:
    """Runs Tune in the thread that calls `run`; `do` may be called from any other."""

    def __init__(self, start: RayStart, post: Post) -> None:
        """Ray must be connected."""
        self._start, self._post = start, post
        self._driver_heard_at = time.monotonic()
        self.actors: dict[str, Any] = {}  # by the worker's key
        self._trial_of: dict[str, int] = {}  # that a worker has, by its key
        self._resources: dict[str, PlacementGroupFactory] = {}
        self._openings: queue.SimpleQueue[Opening] = queue.SimpleQueue()
        self._recalled: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.trials = Trials(self._openings, self._recalled)

    def do(self, command: Message) -> None:
        """Obey the driver."""
        key = command.get("key", "")
        actor = self.actors.get(key)
        match command["do"]:
            case "open":
                place = command["place"]
                resources = PlacementGroupFactory(place["bundles"], place["strategy"], **place["options"])
                self._open(key, resources, command["work"])
            case "grant" if actor is not None and self._trial_of[key] != command["work"].trial:
                self._open(key, self._resources[key], command["work"])
                actor.tell.remote({"do": "yield"})
            case "alive":
                self._driver_heard_at = time.monotonic()
            case "sweep":
                start_thread("sweep", lambda: self.sweep(command["workers"]))
            case "kill":  # what hears nothing any more, and all that it has started
                start_thread("kill", lambda: self._on(command["node"], kill_worker, command["worker"], command["pid"]))
            case "recall":
                self._recalled.put(key)
            case _ if actor is not None:
                actor.tell.remote(command)

    def run(self) -> None:
        """Run Tune until the process ends."""
        start_thread("signs", self._give_signs)
        tune.run(
            TrialOnWorker,
            search_alg=Assigned(self.trials),
            scheduler=Obeying(self.trials, self._hear),
            callbacks=[Starting(self)],
            num_samples=-1,
            reuse_actors=True,
            name="tune",
            storage_path=str(Path(self._start.temporary) / "tune"),
            trial_name_creator=_name,
            trial_dirname_creator=lambda trial: str(trial.trial_id),
            verbose=0,
            raise_on_failed_trial=False,
            _remote=False,  # for a client too: the driver's words reach this process alone
        )

    def started(self, trial: Trial) -> None:
        """Give a trial that Tune has put on a worker its segment."""
        opening = self.trials.opened[trial.trial_id]
        self._trial_of[opening.key] = opening.work.trial
        actor = self.actors[opening.key] = trial.temporary_state.ray_actor
        actor.tell.remote({"do": "grant", "work": opening.work}, self._start)

    def sweep(self, workers: list[list[str]]) -> None:
        """End what lost workers have left behind on other machines, given as pairs of worker and node."""
        sweeps = [threading.Thread(target=self._on, args=(node, sweep_orphans, worker)) for worker, node in workers]
        for thread in sweeps:
            thread.start()
        for thread in sweeps:
            thread.join()

    def _open(self, key: str, resources: PlacementGroupFactory, work: Any) -> None:
        self._resources[key] = resources
        self._openings.put(Opening(key, resources, work))

    def _hear(self, trial: Trial, message: Message) -> None:
        key = self.trials.opened[trial.trial_id].key
        if message["event"] == "broken":
            self.actors.pop(key, None)
            self._recalled.put(key)  # what the driver has given it meanwhile, it gives another
        self._post({**message, "key": key})

    def _on(self, node: str, function: Callable[..., object], *arguments: object) -> None:
        """Call a function of this sweep's tag on a machine; on one that is lost it fails, and so it should."""
        there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        task = ray.remote(function).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
        ray.wait([task.remote(self._start.tag, *arguments)], timeout=_SECONDS_OF_A_SWEEP)

    def _give_signs(self) -> None:
        while True:
            for actor in list(self.actors.values()):
                actor.hear.remote(time.monotonic() - self._driver_heard_at)
            time.sleep(_SECONDS_BETWEEN_SIGNS)


class Trials:
    """What the driver has asked for, as trials of Tune's: each of its trials is one of ours until that fails."""

    def __init__(self, openings: "queue.SimpleQueue[Opening]", recalled: "queue.SimpleQueue[str]") -> None:
        self._openings, self._recalled = openings, recalled
        self._waiting: list[Opening] = []
        self._by_trial: dict[int, Trial] = {}  # Tune's, by ours
        self.opened: dict[str, Opening] = {}  # the newest of each of Tune's trials

    def __deepcopy__(self, memo: object) -> "Trials":
        """Be the same in the copies that Tune makes of what it was started with."""
        return self

    def next_new(self, trial_id: str, *, block: bool) -> Opening | None:
        """Return what is to be a new trial of Tune's; wait for it where nothing else goes on."""
        if block and not self._waiting:
            self._waiting.append(self._openings.get())
        while not self._openings.empty():
            self._waiting.append(self._openings.get())
        for opening in self._waiting:
            trial = self._by_trial.get(opening.work.trial)
            if trial is None or trial.status in (Trial.ERROR, Trial.TERMINATED):
                self._waiting.remove(opening)
                self.opened[trial_id] = opening
                return opening
        return None

    def begun(self, trial: Trial) -> None:
        """Note the trial that Tune has made of an opening."""
        self._by_trial[self.opened[trial.trial_id].work.trial] = trial

    def next_paused(self) -> Trial | None:
        """Return a trial that goes on after a pause, with what it is to occupy now."""
        for opening in self._waiting:
            trial = self._by_trial.get(opening.work.trial)
            if trial is not None and trial.status == Trial.PAUSED:
                self._waiting.remove(opening)
                self.opened[trial.trial_id] = opening
                trial.update_resources(opening.resources)
                return trial
        return None

    def take_back(self, stop: Callable[[Trial], None]) -> None:
        """Forget what no worker has taken, by the driver's word."""
        while not self._recalled.empty():
            key = self._recalled.get()
            self._waiting = [opening for opening in self._waiting if opening.key != key]
            for trial in self._by_trial.values():
                if self.opened[trial.trial_id].key == key:
                    stop(trial)


class Assigned(Searcher):
    """Suggests what the driver has assigned, and nothing else."""

    def __init__(self, trials: Trials) -> None:
        super().__init__()
        self._trials = trials
        self._live = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave nothing in what Tune stores."""
        return {}

    def suggest(self, trial_id: str) -> Any:
        """Return the configuration of the next new trial, None when there is none now."""
        # While no trial lives Tune would sleep for a second between two questions: then waiting here is quicker.
        opening = self._trials.next_new(trial_id, block=not self._live)
        if opening is None:
            return None
        self._live = True
        TrialOnWorker.resources[opening.work.trial] = opening.resources
        return {"trial": opening.work.trial}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Learn nothing."""

    def save(self, checkpoint_path: str) -> None:
        """Keep nothing: the database is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


class Obeying(FIFOScheduler):
    """Starts, pauses and ends trials by the driver's word, and passes on what they report."""

    def __init__(self, trials: Trials, hear: Callable[[Trial, Message], None]) -> None:
        super().__init__()
        self._trials, self._hear = trials, hear

    def __getstate__(self) -> dict[str, Any]:
        """Leave nothing in what Tune stores."""
        return {}

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Note a trial that has been made of what was suggested."""
        self._trials.begun(trial)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return a paused trial that has a segment again; new ones Tune starts by itself."""
        self._trials.take_back(tune_controller.stop_trial)
        return self._trials.next_paused()

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Pass a worker's messages on; pause the trial whose worker is needed for another, or not at all."""
        for message in result[MESSAGES]:
            self._hear(trial, message)
        if not result[YIELDED]:
            return cast(str, TrialScheduler.CONTINUE)
        tune_controller.pause_trial(trial, should_checkpoint=False)  # it has saved itself
        if result[LEAVING]:
            tune_controller._cleanup_cached_actors(force_all=True)
            self._hear(trial, {"event": "broken", "kind": "lost", "reason": "it was released"})
        return cast(str, TrialScheduler.NOOP)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Report the end of a worker with the kind of its failure, and the last line of what Ray says."""
        with open(str(trial.pickled_error_file), "rb") as file:
            error: Exception = cloudpickle.load(file)  # written by this process a moment ago
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        kind = "preempted" if getattr(error, "preempted", False) else "lost"
        if isinstance(error, OutOfMemoryError):
            kind, reason = "out-of-memory", f"Ray ended the worker because its machine ran out of memory: {reason}"
        elif isinstance(error, RayTaskError):
            kind = "error"
        self._hear(trial, {"event": "broken", "kind": kind, "reason": reason})


class Starting(Callback):
    """Tells the session when a trial has its actor."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Pass it on."""
        self._session.started(trial)


def _name(trial: Trial) -> str:
    return f"trial-{trial.config['trial']}"


def start_thread(name: str, target: Callable[[], None]) -> None:
    """Run something beside; it ends with the process."""
    threading.Thread(target=target, name=name, daemon=True).start()
