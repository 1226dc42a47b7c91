"""The executor on Ray keeps the promises of the port; tests share a Ray as far as they can, for it starts slowly."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from budgets.errors import InputError
from runner.processes import SWEEP_TAG, tagged
from runner.sweep.tune.executor import RayExecutor
from tests.conformance.executor import *  # noqa: F403
from tests.conformance.executor import NewExecutor, Works

TAG = "rlplan-test-conformance"

_segments = count(1)  # as in a database, no two of an executor's life are the same


class Kept:
    """An executor for each number of workers, until a test closes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._executors: dict[int, RayExecutor] = {}

    def executor(self, workers: int) -> RayExecutor:
        if workers not in self._executors or self._is_closed(self._executors[workers]):
            folder = self._folder / f"{workers}-workers"
            self._executors[workers] = RayExecutor(folder, workers, f"{TAG}-{workers}")
        return self._executors[workers]

    def settle(self) -> None:
        """End what a test has left running, so that the next one finds workers without a segment."""
        for executor in self._executors.values():
            while not self._is_closed(executor) and (under_way := executor._workers.under_way()):
                for worker in under_way:
                    executor.stop(worker.work.segment if worker.work else 0)
                executor.wait(0.5)

    def close(self) -> None:
        for executor in self._executors.values():
            executor.close()

    def _is_closed(self, executor: RayExecutor) -> bool:
        try:
            executor.open()
        except InputError:
            return True
        return False


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    executors = Kept(tmp_path_factory.mktemp("executors"))
    for workers in (1, 2):
        executors.executor(workers).open()  # the second one's Ray starts while the first one's tests run
    yield executors
    executors.close()
    assert not [pid for workers in (1, 2) for pid in tagged({f"{SWEEP_TAG}={TAG}-{workers}"})]


@pytest.fixture
def new_executor(kept: Kept) -> Iterator[NewExecutor]:
    yield kept.executor
    kept.settle()


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path, sleep=0.005, patience=1.0, pause=0.5, _segments=_segments)
