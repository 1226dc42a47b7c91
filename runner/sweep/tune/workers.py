"""The driver's book of workers: what each occupies and does, how long it has lived, and who goes for another."""

import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from runner.ports.executor import Work
from runner.sweep.tune.messages import Message
from runner.sweep.tune.placement import Footprint, Place
from runner.sweep.worker_records import SECONDS_BETWEEN_BEATS, SECONDS_OF_SILENCE, record_of

_SILENT_HERE = 3.0  # seconds without a sign of life after which a process that is not there has ended


@dataclass
class RayWorker:
    """A process of Ray's, from when it is asked for: it trains segments, one after the other."""

    key: str  # by which driver and session speak of it
    place: Place
    trial: int | None  # that it has in its memory
    work: Work | None  # the segment under way
    used: int  # order in which workers were last given a segment
    asked_at: float  # by the driver's clock: when it was given its segment
    waits_since: float  # likewise: when it was asked for, or room was last made for it
    begun: bool = False  # whether it has said anything of its segment
    is_second: bool = False  # whether it was asked for in the place of one that died before
    name: str | None = None  # as it calls itself; None: nothing was heard of it yet
    host: str = ""
    pid: int = 0
    node: str = ""
    nodes: tuple[str, ...] = ()  # of each part of what it occupies; one of them its own
    seconds: float = 0.0  # of its life, when it was last heard of
    heard_at: float = 0.0  # by the driver's clock
    recorded: bool = False  # its record was found: nothing is charged that is not in it
    over: bool = False
    paid_seconds: float = 0.0  # of its life, in segments that are over
    ended_because: str | None = None  # what the driver ended it for
    lost: Message | None = None  # how Ray reported its end, while it may still be writing

    @property
    def parked(self) -> bool:
        """Whether it waits for its next segment."""
        return self.work is None and self.ended_because is None

    @property
    def is_here(self) -> bool:
        """Whether it runs on the driver's machine."""
        return self.host == socket.gethostname()

    @property
    def remote_nodes(self) -> list[str]:
        """The nodes with processes of its own that are not the driver's machine."""
        return sorted({*self.nodes, self.node} - ({self.node} if self.is_here else set()))

    def can_take(self, footprint: Footprint, unwanted: Collection[str]) -> bool:
        """Whether it can serve a trial that occupies so much and may not run on some nodes."""
        return self.place.footprint == footprint and not set(self.nodes) & set(unwanted)

    def hear(self, message: Message, now: float) -> None:
        """Note a sign of life."""
        event = message["said"]
        self.name, self.host, self.pid = event.worker, message["host"], message["pid"]
        self.node, self.nodes = message["node"], tuple(message["nodes"])
        self.seconds, self.heard_at, self.begun = max(self.seconds, event.worker_seconds), now, True

    def read(self, sweep_folder: Path, now: float) -> None:
        """Take in what it has recorded."""
        record = record_of(sweep_folder, self.name or "")
        if record is None:
            return
        self.recorded, self.over = True, record.over
        if record.seconds > self.seconds:
            self.seconds, self.heard_at = record.seconds, now

    def has_ended(self, now: float) -> bool:
        """Whether it writes no more, by its record or its silence; it may be cut off from Ray alone."""
        gone = self.is_here and not psutil.pid_exists(self.pid)
        return self.over or now - self.heard_at > (_SILENT_HERE if gone else SECONDS_OF_SILENCE)

    def lived(self, now: float, most_seconds: float = float("inf")) -> float:
        """Return how long it lived if nothing more is heard of it.

        That is what it has recorded, and what it had no time to record; without a record, what the segment that it had
        could use at most.
        """
        silent = max(0.0, now - self.heard_at)
        if self.recorded:
            return self.seconds + (0.0 if self.over else min(silent, SECONDS_BETWEEN_BEATS))
        return max(self.seconds, min(self.seconds + silent, self.paid_seconds + most_seconds))


@dataclass
class Workers:
    """All that are not over, by their keys."""

    by_key: dict[str, RayWorker] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: count(1))

    def all(self) -> list[RayWorker]:
        """Return every one, also of those that nothing was heard of yet."""
        return list(self.by_key.values())

    def under_way(self) -> list[RayWorker]:
        """Return those with a segment."""
        return [worker for worker in self.by_key.values() if worker.work is not None]

    def of_segment(self, segment: int) -> RayWorker | None:
        """Return the one that has a segment."""
        return next((one for one in self.under_way() if one.work and one.work.segment == segment), None)

    def parked(self) -> list[RayWorker]:
        """Return those that wait for a segment, the least recently used first."""
        return sorted((one for one in self.by_key.values() if one.parked), key=lambda one: one.used)

    def parked_for(self, work: Work, unwanted: Collection[str], *, full: bool) -> RayWorker | None:
        """Return who takes a segment: who has its trial, or none; where no more may be started, any other."""
        fitting = [one for one in self.parked() if one.can_take(Footprint.of(work), unwanted)]
        if not full:
            fitting = [one for one in fitting if one.trial in (work.trial, None)]
        return min(fitting, key=lambda one: (one.trial != work.trial, one.trial is not None), default=None)

    def open(self, work: Work, place: Place, now: float) -> RayWorker:
        """Return a new one with its first segment."""
        number = next(self._numbers)
        key = f"{number}-trial-{work.trial}"
        worker = self.by_key[key] = RayWorker(key, place, work.trial, work, number, now, now)
        return worker

    def grant(self, worker: RayWorker, work: Work, now: float) -> None:
        """Give a parked one its next segment."""
        worker.trial, worker.work, worker.used = work.trial, work, next(self._numbers)
        worker.asked_at, worker.begun = now, False

    def forgotten(self, before: float) -> list[RayWorker]:
        """Return those whose segment was given to Ray before that, and who have not taken it."""
        return [one for one in self.under_way() if not (one.begun or one.lost) and one.asked_at < before]
