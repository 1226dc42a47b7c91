"""Executes segments in a simulated world on a simulated clock: thousands of trials on thousands of GPUs in minutes.

Nothing is trained and nothing is written: what a trial will do is known from its world, and time passes from one event
to the next.
"""

import heapq
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

from pydantic import ValidationError

from budgets.errors import InputError
from planner.replay.game import Fleet, SimulatedWorker
from planner.tables import explained
from runner.ports.executor import Began, Ended, Event, Failed, Gone, NoRoomError, Progress, Work
from runner.ports.trial import TrialConfig
from runner.simulation.world import Course, course_of
from tests.simulated.segment import SimulatedSegment

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)  # of every simulated cluster


class SimulatedClock:
    """Starts at 0 seconds, and stands still until somebody moves it."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return BEGINNING + timedelta(seconds=self._seconds)

    def seconds(self) -> float:
        """Return the seconds since the beginning."""
        return self._seconds

    def advance_to(self, seconds: float) -> None:
        """Let time pass; it never goes back."""
        self._seconds = max(self._seconds, seconds)


class SimulatedExecutor:
    """An `Executor` on an event heap.

    Progress carries only points with a score, and the last of a segment.
    """

    def __init__(
        self,
        workers: int = 1,
        *,
        course: Callable[[TrialConfig], Course] = course_of,
        gpus_per_worker: float = 1.0,
        cpus_per_worker: float = 1.0,
        gather_seconds: float = 0.0,
        clock: SimulatedClock | None = None,
    ) -> None:
        """Make a cluster.

        Args:
            workers: How many segments run at once.
            course: Returns the life of a trial.
            gpus_per_worker: The most that a segment can ask for.
            cpus_per_worker: The most that a segment can ask for.
            gather_seconds: `wait` returns what happens within this time of the first event in one go.
            clock: Its clock, when it is to go on from another executor's.
        """
        self._course_of = course
        self._most = {"GPUs": gpus_per_worker, "CPUs": cpus_per_worker}
        self._fleet = Fleet(workers)
        self._gather = gather_seconds
        self._clock = clock or SimulatedClock()
        self._running: dict[int, SimulatedSegment] = {}
        self._heap: list[tuple[float, int, SimulatedSegment | Ended]] = []
        self._order = count()
        self._due: list[Event] = []
        self._courses: dict[str, tuple[dict[str, Any], Course]] = {}
        self._saved: set[str] = set()  # folders of trials that have ended a segment
        self._closed = False

    @property
    def clock(self) -> SimulatedClock:
        """The clock of its world."""
        return self._clock

    @property
    def workers(self) -> int:
        """How many segments can run at once now."""
        return self._fleet.size

    def assign(self, work: Work) -> None:
        """Take a segment; InputError when it can never run here, NoRoomError when no worker is idle."""
        self._check(work)
        try:
            course = self._course(work)
        except InputError as error:
            self._due.append(Failed(work.segment, None, 0.0, "input", str(error)))
            return
        now = self._clock.seconds()
        worker = self._fleet.take(work.folder, now)
        fresh = work.from_step == 0 and work.folder not in self._saved
        running = self._running[work.segment] = SimulatedSegment(work, course, worker, now, fresh=fresh)
        self._due.append(Began(work.segment, worker.name, now - worker.born))
        self._schedule(running)

    def stop(self, segment: int) -> None:
        """Have a segment end, saved, after the update under way."""
        running = self._running.get(segment)
        if running is not None and running.stop(self._clock.seconds()):
            self._schedule(running)

    def extend(self, segment: int, reserved_seconds: float) -> None:
        """Pass over that more is paid for: no worker is cut off here."""

    def kill(self, segment: int, reason: str) -> None:
        """End the worker of a segment, which hangs."""
        running = self._running.get(segment)
        if running is not None:
            self._end(running.worker, reason, "hang")

    def release(self) -> None:
        """End the workers that hold no segment."""
        for worker in self._fleet.idle:
            self._end(worker, "nothing was to be done")

    def wait(self, seconds: float) -> Sequence[Event]:
        """Move the clock to the next event, or by so many seconds at most, and return what has happened."""
        if self._closed:
            return []
        now, heap = self._clock.seconds(), self._heap
        deadline = now + seconds
        self._pass_over_stale()
        first = now if self._due else heap[0][0] if heap else deadline
        horizon = min(deadline, first + self._gather)
        self._clock.advance_to(horizon)
        while heap and heap[0][0] <= horizon:
            item = heapq.heappop(heap)[2]
            if isinstance(item, Ended):
                self._due.append(item)
            else:
                self._report(item, horizon)
            self._pass_over_stale()
        events, self._due = self._due, []
        return events

    def close(self) -> Sequence[Event]:
        """End all workers and return the last events."""
        for worker in self._fleet.alive:
            self._end(worker, "the executor was closed")
        events, self._due = self._due, []
        self._closed = True
        return events

    def _check(self, work: Work) -> None:
        if self._closed:
            raise InputError("the executor is closed: it takes no more segments")
        for unit, wanted in (("GPUs", work.gpus), ("CPUs", work.cpus)):
            if wanted > self._most[unit]:
                raise InputError(
                    f"segment {work.segment} asks for {wanted:g} {unit}: a worker has {self._most[unit]:g}"
                )
        if work.segment in self._running:
            raise InputError(f"segment {work.segment} is running already")
        if len(self._running) >= self.workers:
            raise NoRoomError(f"all of {self.workers} workers are busy: wait until a segment has ended")

    def _course(self, work: Work) -> Course:
        known = self._courses.get(work.folder)
        if known is None or (known[0] is not work.config and known[0] != work.config):
            try:
                config = TrialConfig.model_validate(work.config)
            except ValidationError as error:
                raise explained(error, TrialConfig, {}, f"trial {work.trial}") from error
            known = work.config, self._course_of(config)
            self._courses[work.folder] = known
        return known[1]

    def _pass_over_stale(self) -> None:
        """Drop from the heap's top what a segment meant to do before it was stopped or lost."""
        heap = self._heap
        while heap:
            at, _, item = heap[0]
            if isinstance(item, Ended) or (item.next_at == at and self._running.get(item.work.segment) is item):
                return
            heapq.heappop(heap)

    def _schedule(self, running: SimulatedSegment) -> None:
        heapq.heappush(self._heap, (running.next_at, next(self._order), running))

    def _report(self, running: SimulatedSegment, until: float) -> None:
        """Report what a segment has made up to a time."""
        work, worker = running.work, running.worker
        points = running.points_until(until)
        if points:
            at = running.at(points[-1])
            self._due.append(Progress(work.segment, worker.name, at - worker.born, tuple(points)))
        if running.over_at > until:
            self._schedule(running)
            return
        del self._running[work.segment]
        lived = running.over_at - worker.born
        fault = running.fault
        if fault is None:
            self._fleet.park(worker, work.folder, running.step, running.over_at)
            if running.has_begun:
                self._saved.add(work.folder)
            self._due.append(ended(running))
        else:
            self._due.append(Failed(work.segment, worker.name, lived, fault.kind, fault.message))
            if fault.kind == "lost":
                self._fleet.lose(worker)
                self._due.append(Gone(worker.name, lived, fault.message))
            else:
                self._fleet.park(worker, None, -1, running.over_at)

    def _end(self, worker: SimulatedWorker, reason: str, kind: str = "lost") -> None:
        """End a worker's life now, and with it the segment that it has."""
        lived = self._clock.seconds() - worker.born
        for running in [running for running in self._running.values() if running.worker is worker]:
            del self._running[running.work.segment]
            message = f"{worker.name} is gone: {reason}"
            self._due.append(Failed(running.work.segment, worker.name, lived, kind, message))
        self._fleet.lose(worker)
        self._due.append(Gone(worker.name, lived, reason))


def ended(running: SimulatedSegment) -> Ended:
    """Return how a segment that nothing befalls is reported."""
    work, worker = running.work, running.worker
    checkpoint = f"{work.folder}/checkpoint-{running.step:08d}.json"
    return Ended(work.segment, worker.name, running.over_at - worker.born, running.step, checkpoint)
