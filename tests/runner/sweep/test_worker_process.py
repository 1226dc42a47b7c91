"""Processes between driver and trainer: one whose driver died ends; one that is called twice does nothing twice."""

import asyncio
import os
import threading
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.tune import Trainable

from runner.sweep.tune import child as child_module
from runner.sweep.tune.messages import RayStart
from runner.sweep.tune.trainable import MESSAGES, TrialOnWorker
from runner.sweep.tune.worker_process import WorkerProcess
from tests.conformance.works import Works


def test_a_write_that_never_ends_does_not_keep_ray_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver is frozen while a message to it is under way."""
    ended: list[str] = []
    monkeypatch.setattr(child_module, "_LONGEST_FAREWELL", 0.05)
    monkeypatch.setattr(child_module, "end_session", lambda session: ended.append("session"))
    monkeypatch.setattr(child_module, "sweep_orphans", lambda tag, driver: ended.append(f"{tag} of {driver}"))
    monkeypatch.setattr(os, "_exit", lambda code: ended.append("exit"))
    start = RayStart(str(tmp_path), "a tag", None, 1, None, driver="a driver", temporary=str(tmp_path / "t"))
    child = child_module._Child(os.open(os.devnull, os.O_WRONLY), start)

    def interrupted() -> None:
        with child._lock:
            child.leave("the driver is gone")

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(20)
    child._events.close()
    assert ended == ["session", "a tag of a driver", "exit"]


def test_a_call_that_comes_twice_since_its_answer_was_lost_trains_and_says_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process: Any = WorkerProcess.__new__(WorkerProcess)
    process._inbox, process._granted = SimpleQueue(), set()
    for work in (first := Works(tmp_path)(), first, second := Works(tmp_path)(2, segment=2)):
        process.tell({"do": "grant", "work": work})
    assert [process._inbox.get_nowait() for _ in range(2)] == [first, second]
    assert process._inbox.empty()

    calls = iter(["a", "a", "a", "b"])
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_task_id=lambda: next(calls)))
    monkeypatch.setattr(Trainable, "train", lambda trial: trial.step())

    async def answers() -> list[list[Any]]:
        trial = TrialOnWorker.__new__(TrialOnWorker)
        trial.setup({})
        waiting = asyncio.create_task(trial.train())  # its answer will be lost
        again = asyncio.create_task(trial.train())
        await asyncio.sleep(0)
        trial._loop = asyncio.get_running_loop()
        trial._post({"said": 1})
        late = [await waiting, await again, await trial.train()]
        trial._post({"said": 2})
        return [[message["said"] for message in answer[MESSAGES]] for answer in (*late, await trial.train())]

    assert asyncio.run(answers()) == [[1], [1], [1], [2]]
