"""A segment under way in a simulated world: when each of its points comes and how it ends, known from its start."""

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from budgets.hardware import SECONDS_PER_HOUR
from planner.replay.game import SimulatedWorker
from runner.ports.backend import Point
from runner.ports.executor import Work
from runner.simulation.surfaces import uniform
from runner.simulation.world import Breakdown, Course

ROUNDING: Final = 1e-12  # of a time: at the very end of an update the next one is under way
STRETCH: Final = 1024  # updates in which scored steps are looked up at once


class SimulatedSegment:
    """One segment on one worker; times are those of the executor's clock."""

    def __init__(self, work: Work, course: Course, worker: SimulatedWorker, now: float, *, fresh: bool) -> None:
        """Let a worker take a segment now; a fresh trial has not been scored at step 0."""
        self.work, self.worker, self._course = work, worker, course
        in_memory = worker.folder == work.folder and worker.step == work.from_step
        start_up = 0.0 if in_memory else course.start_up_seconds
        # Our own trainer has to have begun before it can heed anything.
        self._starts_until = now + start_up if work.config.get("trainer") else now
        self._left = False  # before it had begun
        self._sent = -1 if fresh else work.from_step
        self._zero = now + start_up - (0.0 if fresh else course.seconds(work.from_step))
        self.fault: Breakdown | None = None
        self.step = self._last_in_time(worker.accounted + work.most_seconds)
        self.over_at = self._saved_at(self.step)
        self._break()
        self._lose(now + seconds_until_lost(course, work))
        self._points = self._scored()
        self.pending = next(self._points, None)

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to go on from."""
        return self._sent >= 0

    @property
    def next_at(self) -> float:
        """When it next has something to report."""
        return self.over_at if self.pending is None else min(self.over_at, self.at(self.pending))

    def at(self, point: Point) -> float:
        """When a point is there."""
        return self._zero + point.seconds

    def points_until(self, horizon: float) -> list[Point]:
        """Take the points that have come since the last call, the last one of all with or without a score."""
        points: list[Point] = []
        while self.pending is not None and self._zero + self.pending.seconds <= horizon:
            points.append(self.pending)
            self._sent = self.pending.optimizer_step
            self.pending = next(self._points, None)
        if self.over_at <= horizon and self.step > self._sent and not self._left:
            points.append(self._course.point(self.step))
            self._sent = self.step
        return points

    def stop(self, now: float) -> bool:
        """Let it end after the update under way; whether that is sooner than it would have ended."""
        if now < self._starts_until:  # what is still starting holds nothing that could be lost
            self.step, self.over_at, self.fault, self.pending = self.work.from_step, now, None, None
            self._left = True
            return True
        under_way = max(self.work.from_step, self._sent, step_at(self._course, (now - self._zero) * (1 + ROUNDING)))
        over_at = self._saved_at(under_way)
        if over_at >= self.over_at:
            return False
        self.step, self.over_at, self.fault = under_way, over_at, None
        if self.pending is not None and self.pending.optimizer_step > under_way:
            self.pending = None
        return True

    def _last_in_time(self, deadline: float) -> int:
        """Return the step after which it is over: `to_step`, or the first update that reaches the deadline."""
        first, last = self.work.from_step, self.work.to_step
        if last <= first + 1 or self._zero + self._course.seconds(last) <= deadline:
            return last
        return min(last, max(first + 1, step_at(self._course, deadline - self._zero)))

    def _saved_at(self, step: int) -> float:
        return self._zero + self._course.seconds(step) + self._course.save_seconds

    def _break(self) -> None:
        found = self._course.breakdown(self.work.from_step, self.step)
        if found is not None:
            self.fault, self.step = found, found.step - 1
            self.over_at = self._zero + self._course.seconds(found.step)

    def _lose(self, lost_at: float) -> None:
        if not lost_at < self.over_at:
            return
        done = step_at(self._course, math.nextafter(lost_at - self._zero, math.inf)) - 1
        self.step, self.over_at = max(self._sent, min(done, self.step)), lost_at
        self.fault = Breakdown(self.step, "lost", f"{self.worker.name} was lost after step {max(0, self.step)}")

    def _scored(self) -> Iterator[Point]:
        step = self._sent
        while step < self.step:
            upto = min(step + STRETCH, self.step)
            for scored in self._course.scored_steps(step, upto):
                if scored > self.step:  # it has been stopped meanwhile
                    return
                yield self._course.point(scored)
            step = upto


def step_at(course: Course, seconds: float) -> int:
    """Return the first step that is over at or after so many seconds."""
    high = 1
    while course.seconds(high) < seconds:
        high *= 2
    return bisect_left(range(high), seconds, key=course.seconds)


def seconds_until_lost(course: Course, work: Work) -> float:
    """Return after how many seconds in this attempt from this step the worker is lost; infinite when never.

    The rate is constant per GPU-hour; another attempt is another draw.
    """
    failures = (work.config.get("simulation") or {}).get("failures", {})
    rate = failures.get("lost_per_gpu_hour", 0.0) * course.gpus / SECONDS_PER_HOUR
    return -math.log(uniform(course.key, work.attempt, work.from_step, 51)) / rate if rate else math.inf
