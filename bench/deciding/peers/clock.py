"""Plays a tuner over a board in simulated time: a GPU-hour of a run takes one worker an hour, and nothing else does."""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from board import Levels, SweepState, recent

MOST_REPEATS = 3  # trials for each recorded run: a tuner that keeps repeating itself comes to an end
ROUNDING = 1e-9
RULES = ("last", "rung", "long")


@dataclass(frozen=True)
class Task:
    """Train a configuration up to a level; a trial that was seen before goes on from where it was left."""

    trial: Hashable
    configuration: int
    to_level: float
    every_level: bool = True  # the tuner hears of each level on the way


class Tuner(Protocol):
    """A peer behind its own interface."""

    def next(self) -> Task | None:
        """Return what a free worker is to do; None when there is nothing until a result comes."""

    def reported(self, trial: Hashable, level: float, score: float) -> bool:
        """Take the score of a level, and return whether the trial goes on."""

    def ended(self, trial: Hashable, level: float, score: float) -> None:
        """Learn that the trial has come to the level of its task."""


@dataclass(frozen=True)
class Stretch:
    """One worker's training from one level to the next."""

    start: float
    end: float
    trial: int
    configuration: int
    run: int
    level: float
    hours: float  # of training that end here
    score: float


@dataclass
class _Trial:
    number: int
    configuration: int
    run: int
    level: float = 0.0


class Clock:
    """One play. A run that another trial has paid for costs nothing up to there: its scores are known."""

    def __init__(self, board: SweepState, levels: Levels, workers: int, limit: float) -> None:
        """Take a board with its levels, and the GPU-hours after which nobody looks any more."""
        self._board, self._levels, self._workers, self._limit = board, levels, workers, limit
        self._trials: dict[Hashable, _Trial] = {}
        self._runs_used: dict[int, int] = defaultdict(int)
        self._paid: dict[tuple[int, int], float] = defaultdict(float)
        self._most = MOST_REPEATS * sum(len(seeds) for seeds in board.runs)

    def play(self, tuner: Tuner) -> list[Stretch]:
        """Return all stretches of training in the order of their ends."""
        done: list[Stretch] = []
        running: list[tuple[float, int, Task, _Trial, Stretch]] = []
        now, order, started = 0.0, 0, 0.0
        while True:
            while len(running) < self._workers and len(self._trials) < self._most:
                task = tuner.next()
                if task is None:
                    break
                trial = self._trial(task)
                stretch = self._stretch(task, trial, now)
                heapq.heappush(running, (stretch.end, order, task, trial, stretch))
                order, started = order + 1, started + stretch.end - stretch.start
            if not running:
                return done
            now, _, task, trial, stretch = heapq.heappop(running)
            ahead = sum(other[0] - now for other in running)
            done.append(stretch)
            if started - ahead > self._limit * (1 + ROUNDING):
                return done
            trial.level = stretch.level
            goes_on = tuner.reported(task.trial, stretch.level, stretch.score) if task.every_level else True
            if stretch.level >= task.to_level - ROUNDING:
                tuner.ended(task.trial, stretch.level, stretch.score)
            elif goes_on:
                stretch = self._stretch(task, trial, now)
                heapq.heappush(running, (stretch.end, order, task, trial, stretch))
                order, started = order + 1, started + stretch.end - stretch.start

    def _trial(self, task: Task) -> _Trial:
        if task.trial not in self._trials:
            used = self._runs_used[task.configuration]
            self._runs_used[task.configuration] += 1
            run = used % len(self._board.runs[task.configuration])
            self._trials[task.trial] = _Trial(len(self._trials), task.configuration, run)
        return self._trials[task.trial]

    def _stretch(self, task: Task, trial: _Trial, now: float) -> Stretch:
        level = min(trial.level + 1, task.to_level) if task.every_level else task.to_level
        key = trial.configuration, trial.run
        hours = self._levels.hours(*key, level)
        cost = max(0.0, hours - self._paid[key])
        self._paid[key] = max(hours, self._paid[key])
        score = self._levels.score(*key, level)
        return Stretch(now, now + cost, trial.number, *key, level, hours, score)


def choices(board: SweepState, stretches: Sequence[Stretch], budget: float) -> dict[str, int]:
    """Return what each rule of choice takes when so many GPU-hours are spent; nothing was seen: an empty answer.

    `last`: the highest last score, as the tools' own answer is. `rung`: the same among those that have come farthest.
    `long`: the highest mean of the last three points among those that have come at least half as far.
    """
    until = _time_of(stretches, budget)
    seen: dict[int, Stretch] = {}
    for stretch in stretches:
        if stretch.end <= until * (1 + ROUNDING):
            seen[stretch.trial] = stretch
    if not seen:
        return {}
    last = list(seen.values())
    farthest = max(stretch.hours for stretch in last)
    top = [stretch for stretch in last if stretch.hours >= farthest * (1 - 1e-6)]
    long = [stretch for stretch in last if stretch.hours >= 0.5 * farthest]
    return {
        "last": max(last, key=lambda stretch: stretch.score).configuration,
        "rung": max(top, key=lambda stretch: stretch.score).configuration,
        "long": max(long, key=lambda one: recent(board, one.configuration, one.run, one.hours)).configuration,
    }


def _time_of(stretches: Sequence[Stretch], budget: float) -> float:
    """Return when the workers together have trained for so long."""
    starts = np.array([stretch.start for stretch in stretches])
    ends = np.array([stretch.end for stretch in stretches])
    times = np.unique(np.concatenate([starts, ends]))
    spent = np.array([np.clip(time - starts, 0, ends - starts).sum() for time in times])
    if spent[-1] <= budget * (1 + ROUNDING):
        return float(times[-1])
    return float(np.interp(budget, spent, times))
