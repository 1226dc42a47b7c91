"""Segments for the conformance suite of executors, and an executor that is watched."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from planner.recipes.schema import Recipe
from runner.ports.backend import Point
from runner.ports.executor import Ended, Event, Executor, Failed, Progress, Work
from runner.ports.trial import Failures, SimulationChoice, TaskChoice, TrialConfig, ValidationPlan

NewExecutor = Callable[[int], Executor]

FAR = 1_000_000  # more updates than any test lets happen
CADENCE = 2  # updates from one score to the next
LONG = 1e9  # seconds that no test takes


@dataclass
class Works:
    """Makes segments of simulated trials; `sleep` is what an update really takes, for executors in real time."""

    folder: Path
    sleep: float = 0.0
    patience: float = LONG  # seconds of the executor's clock that one call of `wait` may take
    pause: float = 1000.0  # seconds of that clock in which nothing is to happen
    _segments: Iterator[int] = field(default_factory=lambda: count(1))

    def __call__(
        self,
        trial: int = 1,
        to_step: int = 6,
        from_step: int = 0,
        *,
        most_seconds: float = LONG,
        fail: str | None = None,
        **changes: Any,
    ) -> Work:
        return Work(
            **{
                "segment": next(self._segments),
                "trial": trial,
                "attempt": 0,
                "config": self.config(trial, fail).model_dump(mode="json"),
                "folder": str(self.folder / f"trial-{trial}"),
                "from_step": from_step,
                "to_step": to_step,
                "most_seconds": most_seconds,
                **changes,
            }
        )

    def config(self, trial: int, fail: str | None = None) -> TrialConfig:
        """A trial of its own seed that fails in its third update, if it is to."""
        failures = Failures() if fail is None else Failures(at_step=3, at_step_kind=fail)
        return TrialConfig(
            task=TaskChoice(name="simulated"),
            recipe=Recipe(name="plain"),
            rollouts_per_prompt=8,
            prompts_per_batch=4,
            learning_rate=1e-6,
            seed=trial,
            validation=ValidationPlan(problems=100, samples=4, every_rollouts=CADENCE * 32),
            simulation=SimulationChoice(seed=3, sleep_seconds_per_update=self.sleep, failures=failures),
        )


class Watched:
    """An executor and all that it has reported."""

    def __init__(self, executor: Executor, works: Works) -> None:
        self.executor = executor
        self.events: list[Event] = []
        self._patience = works.patience

    def until(self, condition: Callable[[], object], rounds: int = 300) -> None:
        for _ in range(rounds):
            if condition():
                return
            self.events += self.executor.wait(self._patience)
        pytest.fail(f"{condition} did not come true; events so far: {self.events}")

    def of(self, kind: type[Any], work: Work | None = None) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind) and (work is None or e.segment == work.segment)]

    def over(self, *works: Work) -> Callable[[], bool]:
        return lambda: all(self.of(Ended, work) or self.of(Failed, work) for work in works)

    def run(self, *works: Work) -> list[Any]:
        """Execute segments at once and return how each was over."""
        for work in works:
            self.executor.assign(work)
        self.until(self.over(*works))
        return [(self.of(Ended, work) + self.of(Failed, work))[0] for work in works]

    def points(self, work: Work) -> list[Point]:
        return [point for progress in self.of(Progress, work) for point in progress.points]

    def close(self) -> None:
        self.events += self.executor.close()


def steps(points: Iterable[Point]) -> list[int]:
    return [point.optimizer_step for point in points]


def scored(points: Iterable[Point]) -> list[int]:
    return [point.optimizer_step for point in points if point.score is not None]


def in_order(values: Sequence[float]) -> bool:
    return all(before <= after for before, after in pairwise(values))
