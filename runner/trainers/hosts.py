"""Where a trainer's processes run: on this machine, or on the others of its trial that Ray has placed.

On each further one a holder starts processes: an actor in the bundle of its node, so that it has the node's part of the
trial's GPUs and ends with the trial's reservation. What it has started ends with it: a guard beside it outlives even a
SIGKILL, and a holder that hears nothing of its worker for a while, because the way to it is cut, ends itself.
"""

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from budgets.errors import InputError, TrainingError
from runner.processes import (
    DRIVER_TAG,
    SWEEP_TAG,
    WORKER_TAG,
    adopt_orphans,
    adopted,
    end_all,
    in_session,
    sweep_after_death,
    sweep_orphans,
    tagged,
)

ATTEMPT_TAG = "RLPLAN_ATTEMPT"  # in the environment of all that one start of a trainer starts
_PATIENCE = 10.0  # seconds after which what cannot be killed is left
_roots: set[int] = set()  # the processes that were started here, and of which leave was not taken
_SECONDS_BETWEEN_SIGNS = 2.0
_SECONDS_BETWEEN_TRIES = 1.0
_SILENT = 30  # seconds without a sign of the worker after which a holder takes itself for cut off
_SECONDS_OF_A_CALL = 30.0  # in which a holder that lives has answered
_SECONDS_OF_A_WAIT = 10.0  # for the end of a process, until it is asked for again
_TAGS = (SWEEP_TAG, WORKER_TAG)  # by which all that a worker has started is found
_holders: dict[str, "list[RayHost]"] = {}  # by the placement group; kept, as the worker is, for its next trial


class Handle(Protocol):
    """A process that was started on a host, with all that it starts itself."""

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""

    def signal(self, number: int) -> None:
        """Send a signal to the process itself; one that is gone is passed over."""

    def kill(self) -> None:
        """End it and everything that it started, at once; afterwards nothing of it is left on the host."""


class Host(Protocol):
    """One machine of a trial."""

    @property
    def address(self) -> str:
        """By which the others reach it."""

    @property
    def gpus(self) -> str:
        """CUDA_VISIBLE_DEVICES there; empty where it has none."""

    def start(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> Handle:
        """Start a process in a folder, with these variables besides those of the host; what it prints goes to a log."""


class LocalHost:
    """This machine."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.address = address
        self.gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def start(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> "LocalProcess":
        """Start a process in a session of its own, so that no signal of ours hits it by accident."""
        return LocalProcess(argv, environment, folder, log)


class LocalProcess:
    """A process on this machine."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> None:
        self._tag = uuid.uuid4().hex
        with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:  # it may print secrets
            self._process = subprocess.Popen(
                argv,
                cwd=folder,
                env={**os.environ, **environment, ATTEMPT_TAG: self._tag},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _roots.add(self._process.pid)

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send a signal to the process itself."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill all that it has started: its session, what carries its tag, their kin, and orphans that it left."""
        end_all(self._left, 0.0)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        _roots.discard(self._process.pid)
        adopted(_roots)  # takes leave of those that have just been killed

    def _left(self) -> set[int]:
        root = self._process.pid
        in_its_session = in_session(root)
        if self._process.returncode is not None and root in in_its_session:
            in_its_session = set()  # its number is another's by now
        return in_its_session | tagged({f"{ATTEMPT_TAG}={self._tag}"}) | adopted(_roots)


class Holder:
    """The actor: starts and ends processes on its node for the worker of its trial."""

    def __init__(self, tags: Mapping[str, str]) -> None:
        """Carry the tags of the worker, by which all that is started can be found."""
        os.environ.update(tags)
        self._tags = [tags[name] for name in _TAGS if name in tags]
        if len(self._tags) == len(_TAGS):
            self._guard = sweep_after_death(*self._tags)  # which acts once this is let go
            adopt_orphans()  # after that: the guard must be no child of this process
        self._processes: dict[str, LocalProcess] = {}
        self._silent = 0
        threading.Thread(target=self._listen, name="listening", daemon=True).start()

    def place(self) -> tuple[str, str]:
        """Return the node's address, and its GPUs as CUDA_VISIBLE_DEVICES."""
        import ray

        return ray.util.get_node_ip_address(), os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def hear(self) -> None:
        """Hear that the worker lives."""
        self._silent = 0

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> None:
        """Start a process under a name; who asks again, because the answer was lost, finds it started."""
        if name not in self._processes:
            self._processes[name] = LocalProcess(argv, environment, folder, log)

    def wait(self, name: str, seconds: float) -> int | None:
        """Return a process's exit code, waiting for it; None when it has none yet."""
        end = time.monotonic() + seconds
        while (code := self._processes[name].poll()) is None and time.monotonic() < end:
            time.sleep(0.1)
        return code

    def signal(self, name: str, signal: int) -> None:
        """Send a process a signal."""
        self._processes[name].signal(signal)

    def kill(self, name: str) -> None:
        """Kill a process and all that it has started."""
        self._processes[name].kill()

    def _listen(self) -> None:
        # By ticks and not by the clock: a process that was stopped for a while is not cut off.
        while self._silent < _SILENT:
            time.sleep(1.0)
            self._silent += 1
        if len(self._tags) == len(_TAGS):
            sweep_orphans(*self._tags)
        os._exit(0)


class RayHost:
    """A further machine of the trial."""

    def __init__(self, holder: Any, address: str, gpus: str) -> None:
        self._holder, self.address, self.gpus = holder, address, gpus
        threading.Thread(target=self._give_signs, name=f"holder {address}", daemon=True).start()

    def start(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> "RayProcess":
        """Start a process there; what it prints goes to a log on storage that all share."""
        name = uuid.uuid4().hex
        _asked(self._holder.start, self.address, name, tuple(argv), dict(environment), folder, log)
        return RayProcess(self._holder, name, self.address)

    def lives(self) -> bool:
        """Whether its holder answers."""
        try:
            _asked(self._holder.hear, self.address)
        except TrainingError:
            return False
        return True

    def end(self) -> None:
        """Free its part of the reservation."""
        import ray

        ray.kill(self._holder)

    def _give_signs(self) -> None:
        import ray

        while True:
            try:
                ray.get(self._holder.hear.remote(), timeout=_SECONDS_OF_A_CALL)
            except ray.exceptions.ActorDiedError:  # there is nobody left to give signs to
                return
            except Exception:  # whatever Ray raises: a way that is cut may be whole again soon
                time.sleep(_SECONDS_BETWEEN_TRIES)
            else:
                time.sleep(_SECONDS_BETWEEN_SIGNS)


class RayProcess:
    """A process on a further machine."""

    def __init__(self, holder: Any, name: str, address: str) -> None:
        self._holder, self._name, self._address = holder, name, address
        self._answered = time.monotonic()
        self._code: int | None = None
        self._ask()

    def poll(self) -> int | None:
        """Return its exit code; TrainingError of the kind lost when its machine is gone."""
        import ray

        if self._code is None and ray.wait([self._answer], timeout=0)[0]:
            try:
                self._code = _got(self._answer, self._address)
                self._answered = time.monotonic()
            except ray.exceptions.RayError as error:
                if time.monotonic() - self._answered > _SECONDS_OF_A_WAIT + _SILENT:
                    raise _lost(error, self._address) from error
            if self._code is None:
                self._ask()
        return self._code

    def _ask(self) -> None:
        self._answer = self._holder.wait.remote(self._name, _SECONDS_OF_A_WAIT)

    def signal(self, number: int) -> None:
        """Send a signal; a machine that is gone is passed over."""
        self._holder.signal.remote(self._name, number)

    def kill(self) -> None:
        """End it and all that it started; on a machine that is gone that is done by the holder's guard."""
        import ray

        ray.wait([self._holder.kill.remote(self._name)], timeout=_SECONDS_OF_A_CALL)


def hosts_of_this_trial(nodes: int) -> Sequence[Host]:
    """Return the machines that the trial has, this one first; InputError when it was not given so many."""
    if nodes == 1:
        return (LocalHost(),)
    group: Any = None
    if "ray" in sys.modules:  # else nobody has placed this
        import ray

        group = ray.util.get_current_placement_group() if ray.is_initialized() else None
    has = len(group.bundle_specs) if group is not None else 1
    if group is None or has != nodes:
        raise InputError(
            f"the trial is for {nodes} nodes, and it was given {has}: run it in a sweep on a cluster (rlplan sweep "
            "--ray-address), or on one node with machine.nodes = 1"
        )
    others = _holders.get(group.id.hex(), [])
    if not others or not all(host.lives() for host in others):
        for host in others:
            host.end()
        others = _holders[group.id.hex()] = _hold(group)
    return (LocalHost(ray.util.get_node_ip_address()), *others)


def _hold(group: Any) -> list[RayHost]:
    """Start a holder in each bundle but the first, which the worker has."""
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    tags = {name: os.environ[name] for name in (*_TAGS, DRIVER_TAG) if name in os.environ}
    holders = []
    for index, bundle in enumerate(group.bundle_specs[1:], start=1):
        there = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
        # All of the bundle, so that Ray names its GPUs; threads, since a call may wait for a process's end.
        size = {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0), "max_concurrency": 16}
        holders.append(ray.remote(Holder).options(scheduling_strategy=there, **size).remote(tags))
    places = [_asked(holder.place, "a further node") for holder in holders]
    return [RayHost(holder, *place) for holder, place in zip(holders, places, strict=True)]


def _asked(method: Any, address: str, *arguments: Any) -> Any:
    """Return a holder's answer; where the way to it is cut it is asked again until it has ended itself."""
    import ray

    until = time.monotonic() + _SILENT
    while True:
        try:
            return _got(method.remote(*arguments), address)
        except ray.exceptions.RayError as error:
            if time.monotonic() > until:
                raise _lost(error, address) from error
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _got(answer: Any, address: str) -> Any:
    """Return a holder's answer; its errors cross as themselves, and its end is that of the trial's reservation."""
    import ray

    try:
        return ray.get(answer, timeout=_SECONDS_OF_A_CALL)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except (ray.exceptions.ActorDiedError, TimeoutError) as error:
        raise _lost(error, address) from error


def _lost(error: Exception, address: str) -> TrainingError:
    last = (str(error).strip().splitlines() or ["no answer"])[-1]
    return TrainingError("lost", f"{address}, a machine of the trial, is gone ({last})")
