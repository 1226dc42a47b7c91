"""Executes segments on Ray, which a process of its own speaks with: when that dies, another is started."""

import math
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from budgets.errors import InputError
from runner.ports.executor import Ended, Event, Failed, NoRoomError, RealClock, Work
from runner.sweep.tune.cluster import Node
from runner.sweep.tune.endings import Endings
from runner.sweep.tune.link import Link, Restarts
from runner.sweep.tune.messages import Message, RayStart
from runner.sweep.tune.placement import (
    ANYWHERE,
    HANG,
    ClusterResources,
    Footprint,
    Hangs,
    Place,
    Placement,
    require_fits,
    room,
    tightest,
    usable,
    with_real_cores,
)
from runner.sweep.tune.workers import RayWorker, Workers
from runner.trainers.in_own_ray import gpus_here

_LONGEST_NAP = 0.25
_LEAVING = 15.0
_SECONDS_BETWEEN_SIGNS = 5.0  # that the driver lives, without which idle workers end


class RayExecutor:
    """Workers on a Ray cluster, on this machine by default."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        tag: str,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        nodes: int = 1,
        start_seconds: float = 600.0,
        placement: Placement = ANYWHERE,
    ) -> None:
        """Nothing is started yet; without the address of a cluster one is started on this machine.

        Every worker reaches the folder, and processes that carry the tag are killed when their worker has died. CPUs
        and GPUs (a part of one or several) are what a typical segment's worker occupies, on so many nodes together.
        Ray may take `start_seconds` to start, and a worker to take its segment, which is then given again: Ray loses
        some with a node. The placement says which machines of a cluster are used, and how much of each.
        """
        self._placement = placement
        cpus = cpus if placement.cpus is None else placement.cpus
        alone = 0 < gpus_here() <= gpus
        here = math.ceil(workers * cpus), None if gpus_here() else 0
        self._start = RayStart(str(folder.absolute()), tag, address, *here, alone, dict(placement.runtime_env))
        self._most_workers = self._last_workers = workers
        self._typical = Footprint.over(nodes, cpus, gpus, placement.memory_gb)
        self._start_seconds = start_seconds
        self._clock = RealClock()
        self._workers = Workers()
        self._link: Link | None = None
        self._everything = self._nodes = tuple[Node, ...]()  # of the cluster; and what of it may be used
        self._hangs = Hangs()
        self._ready = self._closed = False
        self._started_at = self._last_sign = 0.0
        self._restarts = Restarts(address)
        self._reason = ""
        self._events: list[Event] = []
        self._endings = Endings(self._start, self._clock, self._workers, self._events, self._send)

    @property
    def clock(self) -> RealClock:
        """The clock of the world."""
        return self._clock

    @property
    def workers(self) -> int:
        """How many segments can run at once now: on a cluster, what others leave free counts."""
        if self._start.address is None or not self._ready:
            return self._last_workers
        ours = usable(self._nodes, self._typical, self._hangs.left_out)
        free = room(ours, self._workers.all(), self._typical)
        # One that is being started occupies what it was promised before it has said where.
        return min(self._most_workers, max(free, len(self._workers.under_way())))

    def open(self) -> None:
        """Start Ray, or join it; the first use does so too."""
        if self._closed:
            raise InputError("the executor is closed: make a new one")
        self._restarts.check()
        if self._link is None and not self._restarts.pending:
            self._launch()

    def resources(self) -> ClusterResources:
        """Return what each machine of the cluster has, waiting until that is known."""
        self._wait_until_ready()
        self._placement.require_some(self._everything, self._nodes)
        return ClusterResources(self._nodes if self._start.address is not None else with_real_cores(self._nodes))

    def assign(self, work: Work) -> None:
        """Take a segment, for the worker that has its trial in memory if there is one."""
        self.open()
        work = self._placement.applied(work)
        machines = self._machines(work)
        require_fits(work, machines, may_grow=self._start.address is not None)
        if len(self._workers.under_way()) >= self.workers:
            raise NoRoomError(
                f"segment {work.segment} cannot be taken: all {self.workers} workers have one; wait until one has ended"
            )
        footprint, now = Footprint.of(work), self._clock.seconds()
        wanted_nodes = usable(machines, footprint, self._hangs.unwanted_for(work.trial))
        unwanted = {node.node for node in machines} - {node.node for node in wanted_nodes}
        full = len([worker for worker in self._workers.all() if worker.ended_because is None]) >= self.workers
        worker = self._workers.parked_for(work, unwanted, full=full)
        if worker is not None:
            self._workers.grant(worker, work, now)
            self._send({"do": "grant", "key": worker.key, "work": work})
            return
        if full and (parked := self._workers.parked()):
            self._endings.release(parked[0])
        place = Place(footprint)
        if self._start.address is not None:
            target = tightest(footprint, wanted_nodes, self._workers.all())
            place = Place(footprint, target, tuple(sorted(unwanted)), tuple(self._placement.labels.items()))
        self._open(self._workers.open(work, place, now))

    def stop(self, segment: int) -> None:
        """Have a segment end, saved, after the update under way."""
        worker = self._workers.of_segment(segment)
        if worker is not None:
            self._send({"do": "stop", "key": worker.key, "segment": segment})

    def extend(self, segment: int, reserved_seconds: float) -> None:
        """Tell a segment's worker that more is paid for now: should it be cut off, it trains so much longer."""
        worker = self._workers.of_segment(segment)
        if worker is not None and worker.work is not None:
            worker.work = replace(worker.work, reserved_seconds=reserved_seconds)
            self._send({"do": "extend", "key": worker.key, "segment": segment, "reserved_seconds": reserved_seconds})

    def kill(self, segment: int, reason: str) -> None:
        """End the worker of a segment, which hangs: its process may hear nothing any more."""
        worker = self._workers.of_segment(segment)
        if worker is None or worker.name is None or not worker.begun:
            return
        now = self._clock.seconds()
        worker.seconds, worker.heard_at = worker.seconds + max(0.0, now - worker.heard_at), now  # it lived until now
        self._send({"do": "kill", "worker": worker.name, "node": worker.node, "pid": worker.pid})
        self._endings.of(worker, {"kind": HANG, "reason": f"{reason}{self._left_out_after(worker)}"})

    def release(self) -> None:
        """End the workers that hold no segment."""
        for worker in self._workers.parked():
            self._endings.release(worker)

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return what has happened, in order, after so many seconds at most."""
        end = self._clock.seconds() + seconds
        while not self._closed:
            now = self._clock.seconds()
            self._tend(now)
            self._take_messages(0.0 if self._events else min(_LONGEST_NAP, max(0.0, end - now)))
            if self._events or self._clock.seconds() >= end:
                break
            self._restarts.check()
        return self._new_events()

    def close(self) -> Sequence[Event]:
        """End all workers, saving nothing; no process of the sweep is left on this machine."""
        if self._closed:
            return []
        self._take_messages(0.0)
        self._closed = True
        if self._link is not None:
            heard_of = [worker for worker in self._workers.all() if worker.name is not None]
            remote = [[worker.name, node] for worker in heard_of for node in worker.remote_nodes]
            if self._start.address is not None and self._ready:
                self._endings.all_in_good_order()
                self._link.send({"do": "leave", "workers": remote})
                self._link.wait_for_the_end(_LEAVING)
            self._link.end()
        self._endings.of_all("the executor was closed")
        return self._new_events()

    def _new_events(self) -> list[Event]:
        events = list(self._events)
        self._events.clear()
        return events

    def _launch(self) -> None:
        self._reason = ""
        self._started_at = self._clock.seconds()
        self._link = Link(self._start)
        for worker in self._workers.all():  # whose segments were taken while there was no Ray
            self._open(worker)

    def _open(self, worker: RayWorker) -> None:
        assert worker.work is not None
        self._send({"do": "open", "key": worker.key, "place": worker.place.asked, "work": worker.work})

    def _send(self, command: Message) -> None:
        if self._link is not None:
            self._link.send(command)

    def _take_messages(self, seconds: float) -> None:
        if self._link is None:
            self._clock.sleep(seconds)
            return
        message = self._link.receive(seconds)
        while message is not None and self._link is not None:
            self._take(message)
            message = self._link.receive(0.0) if self._link is not None else None

    def _take(self, message: Message) -> None:
        match message["event"]:
            case "end":
                self._ray_lost()
            case "leaving":
                self._reason = message["reason"]
            case "nodes":
                if not self._ready:
                    for worker in self._workers.all():  # Ray hears of them only now
                        worker.asked_at = self._clock.seconds()
                self._ready = True
                self._restarts.ready()
                self._everything = tuple(message["nodes"])
                self._nodes = self._everything
                if self._start.address is not None:
                    self._nodes = self._placement.among(self._everything)
                self._endings.on_nodes(self._nodes)
            case "broken":
                self._broken(message)
            case _:
                self._hear(message)

    def _broken(self, message: Message) -> None:
        """Report a worker's end; one that died unnoticed before it was given a segment costs none: another takes it."""
        worker = self._workers.by_key.get(message["key"])
        if worker is None:
            return
        work = worker.work
        if work is None or worker.begun or worker.is_second or not (worker.name is None or worker.is_here):
            self._endings.broken(worker, message)
            return
        worker.work = None
        self._endings.of(worker, message)
        second = self._workers.open(work, worker.place, self._clock.seconds())
        second.is_second = True
        self._open(second)

    def _hear(self, message: Message) -> None:
        """Pass an event of a worker on; what comes late, of a segment that is over, is dropped."""
        worker = self._workers.by_key.get(message["key"])
        event = message["said"]
        if worker is None or worker.work is None or worker.work.segment != event.segment:
            return
        worker.hear(message, self._clock.seconds())
        if isinstance(event, Ended | Failed):
            worker.work, worker.paid_seconds = None, event.worker_seconds
        if isinstance(event, Ended):
            self._restarts.worked()
            self._hangs.ended_well(worker.nodes)
        elif isinstance(event, Failed):
            if event.kind == HANG:
                event = replace(event, message=f"{event.message}{self._left_out_after(worker)}")
            worker.trial = None
        self._events.append(event)

    def _left_out_after(self, worker: RayWorker) -> str:
        """Count a hang to the nodes of a worker, and return what of them is left out for it."""
        left_out = self._hangs.hung(worker.trial, worker.nodes) if worker.trial is not None else ()
        names = ", ".join(sorted(node.host for node in self._nodes if node.node in left_out))
        return f"; two segments in a row hung on {names}: it is left out from now on" if names else ""

    def _ray_lost(self) -> None:
        """Report everything under way as lost, clean up, and have another Ray process started after a while."""
        assert self._link is not None
        code, log = self._link.end(), self._link.log
        reason = self._reason or (f"the process that runs Ray was killed by signal {-code}" if code < 0 else "")
        reason = f"{reason or f'the process that runs Ray ended with exit code {code}'} (see {log})"
        self._last_workers = max(1, self.workers)
        self._link, self._ready = None, False
        self._endings.of_all(reason)
        self._restarts.lost(reason, self._clock.seconds())

    def _tend(self, now: float) -> None:
        """Do what is due although no message asks for it."""
        if self._restarts.due(now):
            self._launch()
        if self._ready and now - self._last_sign > _SECONDS_BETWEEN_SIGNS:
            self._last_sign = now
            self._send({"do": "alive"})
        if self._link is not None and not self._ready and now - self._started_at > self._start_seconds:
            self._reason = f"Ray was not ready after {self._start_seconds:g} s ([cluster] start_seconds)"
            self._link.end()  # the end of its messages follows
        self._endings.look(now)
        if self._ready:
            self._endings.for_those_who_wait(now)
        if self._ready and len(self._workers.under_way()) <= self.workers:  # else it may wait for others' room
            self._endings.forgotten(now, self._start_seconds)

    def _wait_until_ready(self) -> None:
        self.open()
        while not self._ready:
            self._restarts.check()
            self._tend(self._clock.seconds())
            self._take_messages(_LONGEST_NAP)

    def _machines(self, work: Work) -> Sequence[Node]:
        """Return the machines that count for a segment; those of a cluster that is started here are known before."""
        start = self._start
        if start.address is None and (start.gpus == 0 or work.gpus == 0):
            return [Node("", socket.gethostname(), start.cpus, 0.0, start.cpus, 0.0)]
        self._wait_until_ready()
        return self._nodes
