"""A worker whose host is cut off from the cluster: it ends itself in time, and is charged by its own record."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.ports.executor import Began, Event, Failed, Gone, Work
from runner.sweep.on_ray import executor as executor_module
from runner.sweep.on_ray.executor import RayExecutor
from runner.sweep.on_ray.messages import Message, message_of
from runner.sweep.on_ray.worker_process import Lifeline
from runner.sweep.worker_records import worker_records


class Ticking:
    """A worker's age, which grows with each look; what happens meanwhile is said by age."""

    def __init__(self, happens: dict[int, str]) -> None:
        self.age, self.happens = 0, happens
        self.lifeline = Lifeline(self.seconds, lambda: None, tick=0.0)

    def seconds(self) -> float:
        self.age += 1
        if (what := self.happens.get(self.age, self.happens.get(0))) is not None:
            getattr(self.lifeline, what)()
        return float(self.age)


@pytest.mark.parametrize(
    ("paid_until", "happens", "ends_at"),
    [
        (0, {}, 21),  # without a segment: as soon as it takes itself for cut off
        (40, {}, 40),  # with one: when its time is used up
        (1000, {}, 61),  # or when Ray takes it for dead
        (1000, {30: "heard"}, 90),  # the way is there again
        (0, {50: "deaf", 0: "heard"}, 50),  # a message may be lost, though others arrive
        (70, {50: "deaf", 0: "heard"}, 70),
    ],
)
def test_a_worker_that_hears_nothing_ends_itself(paid_until: float, happens: dict[int, str], ends_at: int) -> None:
    worker = Ticking(happens)
    worker.lifeline.paid_until(paid_until)
    worker.lifeline.watch()
    assert worker.age == pytest.approx(ends_at, abs=1)


CUT_OFF = """
import os, sys, threading, time
from pathlib import Path
from runner.sweep.on_ray.worker_process import Lifeline, WorkerProcess
from runner.sweep.worker_records import Heartbeat, WorkerLife
process = WorkerProcess.__new__(WorkerProcess)
process._life, process._tag = WorkerLife(), "rlplan-test-cut-off"
process._heartbeat = Heartbeat(process._life, Path(sys.argv[1]))
process._lifeline = Lifeline(process._life.seconds, process._leave, tick=0.01)
process._lifeline.paid_until(process._life.seconds() + 1.0)
threading.Thread(target=process._lifeline.watch, daemon=True).start()
while True:  # an update that never ends
    sum(range(10**5))
"""


def test_a_process_that_is_cut_off_ends_while_it_trains_and_records_its_end(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CUT_OFF, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == 0
    (record,) = worker_records(tmp_path).values()
    assert record.over


class Silent:
    """A way to Ray's process on which a test says what comes."""

    def __init__(self, *_: Any) -> None:
        self.messages: list[Message] = []
        self.log = Path("ray-1.log")

    def send(self, command: Message) -> None: ...

    def receive(self, seconds: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def end(self) -> int:
        return 0


class Hands:
    """A clock that a test sets."""

    at = 100.0

    def seconds(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def test_the_loss_of_a_worker_elsewhere_is_told_when_its_record_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "Link", Silent)
    executor = RayExecutor(tmp_path, 1, "rlplan-test-cut-off")
    clock = Hands()
    executor._clock = clock  # type: ignore[assignment]
    executor.assign(Work(7, 1, 0, {}, "folder", 0, 4, most_seconds=10.0, reserved_seconds=13.3))
    link = executor._link
    assert isinstance(link, Silent)
    record = tmp_path / "workers" / "far-1-ab.json"
    record.parent.mkdir()

    def recorded(seconds: float, *, over: bool) -> None:
        values = {"worker": "far-1-ab", "seconds": seconds, "slots": 1, "segment": 7, "over": over}
        record.write_text(json.dumps(values))

    def told() -> list[Event]:
        clock.at += 1.0
        return list(executor.wait(0.0))

    place = {"host": "far", "pid": 1, "node": "n"}
    link.messages.append({**message_of(Began(7, "far-1-ab", 2.0)), **place, "lease": "1-trial-1"})
    assert told() == [Began(7, "far-1-ab", 2.0)]
    recorded(9.0, over=False)
    clock.at += 60.0  # until Ray notices
    link.messages.append({"event": "broken", "lease": "1-trial-1", "kind": "lost", "reason": "the node died"})
    assert told() == []  # it may train on
    recorded(13.4, over=True)
    events = told()
    assert [type(event) for event in events] == [Failed, Gone]
    assert [event.worker_seconds for event in events] == [13.4, 13.4]
    assert events[0].message == "the node died"
    executor.close()
