"""Executes segments with Ray Tune, which runs in a process of its own: when that dies, another is started."""

import math
import socket
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from budgets.errors import InputError
from runner.ports.executor import Began, Ended, Event, Failed, NoRoomError, RealClock, Work
from runner.sweep.on_ray.cluster import Node
from runner.sweep.on_ray.endings import Endings
from runner.sweep.on_ray.known_workers import Records
from runner.sweep.on_ray.leases import Lease, Leases
from runner.sweep.on_ray.link import Link, Restarts
from runner.sweep.on_ray.messages import Message, event_of
from runner.sweep.on_ray.placement import ANYWHERE, Placement
from runner.sweep.on_ray.placing import (
    HANG,
    ClusterResources,
    Footprint,
    Hangs,
    Place,
    require_fits,
    room,
    tightest,
    usable,
    with_real_cores,
)
from runner.sweep.on_ray.session import RayStart
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
        self._leases = Leases()
        self._link: Link | None = None
        self._everything = self._nodes = tuple[Node, ...]()  # of the cluster; and what of it may be used
        self._hangs = Hangs()
        self._ready = self._closed = False
        self._started_at = self._last_sign = 0.0
        self._restarts = Restarts(address)
        self._reason = ""
        self._events: list[Event] = []
        books = self._leases, Records(folder), self._events
        self._endings = Endings(tag, self._clock, *books, lambda: self._alive, self._send)

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
        free = room(ours, self._leases.workers.values(), self._typical)
        # A lease that is being opened occupies what it was promised before its worker has said where.
        return min(self._most_workers, max(free, len(self._leases.under_way)))

    @property
    def segments(self) -> tuple[int, ...]:
        """The segments that are under way."""
        return tuple(lease.work.segment for lease in self._leases.under_way if lease.work is not None)

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
        if len(self._leases.under_way) >= self.workers:
            raise NoRoomError(
                f"segment {work.segment} cannot be taken: all {self.workers} workers have one; wait until one has ended"
            )
        lease = self._leases.parked_of(work)
        if lease is not None:
            self._leases.grant(lease, work, self._clock.seconds())
            self._send({"do": "grant", "lease": lease.name, "work": asdict(work)})
            return
        footprint = Footprint.of(work)
        wanted = usable(machines, footprint, self._hangs.unwanted_for(work.trial))
        unwanted = {node.node for node in machines} - {node.node for node in wanted}
        ends = self._leases.to_end_for(footprint, unwanted) if len(self._leases.holders()) >= self.workers else None
        if ends is not None and ends.can_give(footprint, unwanted):
            place = ends.place
        elif self._start.address is None:
            place = Place(footprint)
        else:
            target = tightest(footprint, wanted, self._leases.workers.values(), self._leases.new_places)
            place = Place(footprint, target, tuple(sorted(unwanted)), tuple(self._placement.labels.items()))
        self._open(self._leases.open(work, place, self._clock.seconds()), ends)

    def stop(self, segment: int) -> None:
        """Have a segment end, saved, after the update under way."""
        lease = self._leases.of_segment(segment)
        if lease is not None:
            self._send({"do": "stop", "lease": lease.name, "segment": segment})

    def extend(self, segment: int, reserved_seconds: float) -> None:
        """Tell a segment's worker that more is paid for now: should it be cut off, it trains so much longer."""
        lease = self._leases.of_segment(segment)
        if lease is not None and lease.work is not None:
            lease.work = replace(lease.work, reserved_seconds=reserved_seconds)
            self._send({"do": "extend", "lease": lease.name, "segment": segment, "reserved_seconds": reserved_seconds})

    def kill(self, segment: int, reason: str) -> None:
        """End the worker of a segment, which hangs: its process may hear nothing any more."""
        lease = self._leases.of_segment(segment)
        if lease is None or lease.worker is None:
            return
        worker = lease.worker
        worker.was_there(self._clock.seconds())
        self._send({"do": "kill", "worker": worker.name, "node": worker.node, "pid": worker.pid})
        self._endings.of_lease(lease, {"kind": HANG, "reason": f"{reason}{self._left_out_after(lease)}"})

    def release(self) -> None:
        """End the workers that hold no segment."""
        self._endings.release_spare()

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
            remote = [[worker.name, node] for worker in self._leases.workers.values() for node in worker.remote_nodes]
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
        for lease in self._leases.leases.values():  # taken while there was no Ray
            self._open(lease, None)

    def _open(self, lease: Lease, ends: Lease | None) -> None:
        assert lease.work is not None
        if ends is not None:
            ends.closing = True
        self._send(
            {
                "do": "lease",
                "lease": lease.name,
                "place": lease.place.asked,
                "work": asdict(lease.work),
                "ends": ends.name if ends is not None else None,
            }
        )

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
                    self._leases.asked_again(self._clock.seconds())
                self._ready = True
                self._restarts.ready()
                self._nodes_are(tuple(Node(**node) for node in message["nodes"]))
            case "over":
                self._leases.close(message["lease"])
            case "broken":
                self._broken(message)
            case _:
                self._hear(message)

    def _hear(self, message: Message) -> None:
        """Pass an event of a worker on; what comes late, of a segment that is over, is dropped."""
        lease = self._leases.leases.get(message["lease"])
        event = event_of(message)
        if lease is None and isinstance(event, Began):
            self._endings.uncalled(message["worker"])
        if event is None or lease is None or lease.work is None or lease.work.segment != message["segment"]:
            return
        worker = self._leases.hear(message, self._clock.seconds())
        if isinstance(event, Ended | Failed):
            lease.work, worker.paid_seconds = None, event.worker_seconds
        if isinstance(event, Ended):
            self._restarts.worked()
            self._hangs.ended_well(worker.nodes)
        elif isinstance(event, Failed):
            lease.closing = True
            if event.kind == HANG:
                event = replace(event, message=f"{event.message}{self._left_out_after(lease)}")
        self._events.append(event)

    def _left_out_after(self, lease: Lease) -> str:
        """Count a hang to the nodes of its worker, and return what of them is left out for it."""
        left_out = self._hangs.hung(lease.trial, lease.worker.nodes if lease.worker is not None else ())
        names = ", ".join(sorted(self._host_of(node) for node in left_out))
        return f"; two segments in a row hung on {names}: it is left out from now on" if names else ""

    def _nodes_are(self, nodes: tuple[Node, ...]) -> None:
        """Take in what the cluster is now."""
        names = {node.node: node.host for node in self._nodes}
        self._everything = nodes
        self._nodes = nodes if self._start.address is None else self._placement.among(nodes)
        self._endings.without_nodes(self._alive, lambda node: names.get(node, node))

    @property
    def _alive(self) -> set[str]:
        return {node.node for node in self._nodes}

    def _host_of(self, node: str) -> str:
        return next((one.host for one in self._nodes if one.node == node), node)

    def _broken(self, message: Message) -> None:
        """A lease has ended with its worker's process, or by an error outside of the training."""
        lease = self._leases.leases.get(message["lease"])
        if lease is None:
            return
        if self._leases.reopen(lease, self._clock.seconds()):
            self._open(lease, None)
        else:
            self._endings.broken(lease, message)

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
        if self._ready and len(self._leases.under_way) <= self.workers:  # else it may wait for others' room
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
