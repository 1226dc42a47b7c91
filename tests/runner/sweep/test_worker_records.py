"""What workers record of their lives, by which they are charged; one that is cut off ends itself in time."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.ports.executor import Began, Event, Failed, Gone, NoRoomError, Work
from runner.sweep.tune import executor as executor_module
from runner.sweep.tune import worker_process
from runner.sweep.tune.cluster import Node
from runner.sweep.tune.executor import RayExecutor
from runner.sweep.tune.messages import Message
from runner.sweep.tune.placement import Footprint, Place
from runner.sweep.tune.worker_process import Watchdog, WorkerProcess
from runner.sweep.tune.workers import RayWorker
from runner.sweep.worker_records import Heartbeat, WorkerLife, WorkerRecord, worker_records


def work(trial: int = 1, segment: int = 1, **changes: Any) -> Work:
    return replace(Work(segment, trial, 0, {}, "folder", 0, 4, 60.0), **changes)


def said(event: Event, key: str) -> Message:
    return {"event": "said", "said": event, "key": key, "host": "far", "pid": 1, "node": "n", "nodes": ["n"]}


def elsewhere() -> RayWorker:
    worker = RayWorker("1-trial-1", Place(Footprint()), 1, work(reserved_seconds=13.0), 1, 0.0, 0.0)
    worker.hear(said(Began(1, "w", 5.0), worker.key), now=100.0)
    return worker


class Ticking:
    """A worker's age, which grows with each look; what happens meanwhile is said by age."""

    def __init__(self, happens: dict[int, str]) -> None:
        self.age, self.happens = 0, happens
        self.lifeline = Watchdog(self.seconds, lambda: None, tick=0.0)

    def seconds(self) -> float:
        self.age += 1
        what = self.happens.get(self.age, self.happens.get(0))
        if what is not None:
            self.lifeline.heard(60.0 if what == "driver is silent" else 5.0)
        return float(self.age)


@pytest.mark.parametrize(
    ("paid_until", "happens", "ends_at"),
    [
        (0, {}, 21),  # without a segment: as soon as it takes itself for cut off
        (40, {}, 40),  # with one: when its time is used up
        (1000, {}, 1000),  # and not before: what it makes is paid for, and saved
        (40, {30: "heard"}, 50),  # the way was there again
        (0, {0: "driver is silent"}, 1),  # frozen, or dead: nobody would give it a segment, or pay for its life
        (40, {0: "driver is silent"}, 40),
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
from runner.sweep.tune.worker_process import Watchdog, WorkerProcess
from runner.sweep.worker_records import Heartbeat, WorkerLife
process = WorkerProcess.__new__(WorkerProcess)
process._life, process._tag = WorkerLife(), "rlplan-test-cut-off"
process._heartbeat = Heartbeat(process._life, Path(sys.argv[1]))
process._watchdog = Watchdog(process._life.seconds, process._leave, tick=0.01)
process._watchdog.paid_until(process._life.seconds() + 1.0)
threading.Thread(target=process._watchdog.watch, daemon=True).start()
while True:  # an update that never ends
    sum(range(10**5))
"""


def test_a_process_that_is_cut_off_ends_while_it_trains_and_records_its_end(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CUT_OFF, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == 0
    (record,) = worker_records(tmp_path).values()
    assert record.over


def test_a_worker_says_its_last_word_when_nothing_that_it_has_started_writes_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    process = WorkerProcess.__new__(WorkerProcess)
    process._tag, process._life = "tag", SimpleNamespace(name="worker")
    process._heartbeat = SimpleNamespace(end=lambda: order.append("over"))
    monkeypatch.setattr(worker_process, "sweep_orphans", lambda *_: order.append("ended"))
    process.end()
    assert order == ["ended", "over"]


class Silent:
    """A way to Ray's process on which a test says what comes."""

    def __init__(self, *_: Any) -> None:
        self.messages: list[Message] = []
        self.sent: list[Message] = []
        self.log = Path("ray-1.log")

    def send(self, command: Message) -> None:
        self.sent.append(command)

    def receive(self, seconds: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def wait_for_the_end(self, seconds: float) -> None:
        pass

    def end(self) -> int:
        return 0


class Hands:
    """A clock that a test sets."""

    at = 100.0

    def seconds(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def opened_on(
    link: type[Silent], folder: Path, patch: pytest.MonkeyPatch, workers: int = 1, **options: Any
) -> tuple[RayExecutor, Any, Hands]:
    """Return an executor whose Ray says what a test has it say, the way to that, and its clock."""
    patch.setattr(executor_module, "Link", link)
    executor, clock = RayExecutor(folder, workers, "rlplan-test-cut-off", **options), Hands()
    patch.setattr(executor, "_clock", clock)
    executor.open()
    return executor, executor._link, clock


def with_a_segment(folder: Path, patch: pytest.MonkeyPatch, reserved_seconds: float) -> tuple[RayExecutor, Any, Hands]:
    """Return one that has handed out segment 7."""
    executor, link, clock = opened_on(Silent, folder, patch)
    executor.assign(work(1, 7, most_seconds=10.0, reserved_seconds=reserved_seconds))
    return executor, link, clock


def test_the_loss_of_a_worker_elsewhere_is_told_when_its_record_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, link, clock = with_a_segment(tmp_path, monkeypatch, reserved_seconds=13.3)
    written = tmp_path / "workers" / "far-1-ab.json"
    written.parent.mkdir()

    def told() -> list[Event]:
        clock.at += 1.0
        return list(executor.wait(0.0))

    link.messages.append(said(Began(7, "far-1-ab", 2.0), "1-trial-1"))
    assert told() == [Began(7, "far-1-ab", 2.0)]
    written.write_text(record(9.0, over=False))
    clock.at += 60.0  # until Ray notices
    link.messages.append({"event": "broken", "key": "1-trial-1", "kind": "lost", "reason": "the node died"})
    assert told() == []  # it may train on
    written.write_text(record(13.4, over=True))
    events = told()
    assert [type(event) for event in events] == [Failed, Gone]
    assert [event.worker_seconds for event in events] == [13.4, 13.4]
    assert events[0].message == "the node died"
    executor.close()


def test_a_worker_that_is_cut_off_may_use_what_its_segment_was_given_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, link, clock = with_a_segment(tmp_path, monkeypatch, reserved_seconds=13.0)
    link.messages.append(said(Began(7, "far-1-ab", 2.0), "1-trial-1"))
    executor.wait(0.0)
    executor.extend(7, 40.0)
    executor.extend(8, 40.0)  # which is over
    extended = [message for message in link.sent if message["do"] == "extend"]
    assert extended == [{"do": "extend", "key": "1-trial-1", "segment": 7, "reserved_seconds": 40.0}]
    clock.at += 100.0
    link.messages.append({"event": "end"})  # nothing of it was recorded: it may have used all of that
    (failed,) = (event for event in executor.wait(0.0) if isinstance(event, Failed))
    assert failed.worker_seconds == 40.0
    executor.close()


def test_a_worker_takes_more_for_the_segment_that_it_executes_and_for_no_other() -> None:
    process = WorkerProcess.__new__(WorkerProcess)
    process._watchdog, process._paid_seconds, process._segment = Watchdog(lambda: 0.0, lambda: None), 5.0, 7
    for number in (7, 8):
        process.tell({"do": "extend", "segment": number, "reserved_seconds": 10.0 * number})
    assert process._watchdog._paid_until == 75.0


def test_a_segment_that_ray_forgets_is_told_as_lost_so_that_it_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, link, clock = opened_on(Silent, tmp_path, monkeypatch, 2, start_seconds=180.0)
    forgotten, taken = (work(number, number, most_seconds=1e4, reserved_seconds=1e4) for number in (7, 8))
    executor.assign(forgotten)
    executor.assign(taken)
    nodes = {"event": "nodes", "nodes": [Node("n", "far", 4.0, 0.0, 4.0, 0.0)]}
    link.messages += [nodes, said(Began(8, "far-2", 2.0), "2-trial-8")]
    assert executor.wait(0.0) == [Began(8, "far-2", 2.0)]
    clock.at += 170.0
    assert not executor.wait(0.0)
    clock.at += 20.0
    assert [(type(event), event.segment, event.kind) for event in executor.wait(0.0)] == [(Failed, 7, "lost")]
    assert {"do": "recall", "key": "1-trial-7"} in link.sent
    executor.assign(replace(forgotten, segment=9))  # it is given again
    assert {worker.work.segment for worker in executor._workers.under_way() if worker.work} == {8, 9}
    link.messages.append(said(Began(7, "far-3", 2.0), "1-trial-7"))
    assert not executor.wait(0.0)
    executor.close()


def test_a_cluster_that_comes_back_smaller_has_no_room_and_refuses_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, link, _ = opened_on(Silent, tmp_path, monkeypatch, 2, address="head:6379")
    link.messages.append({"event": "nodes", "nodes": [Node("n", "far", 1.0, 0.0, 1.0, 0.0)]})
    executor.assign(work(1, 1))
    assert executor.workers == 1  # which it knows only now
    with pytest.raises(NoRoomError, match="all 1 workers have one"):
        executor.assign(work(2, 2))
    link.messages.append({"event": "nodes", "nodes": [Node("n", "far", 0.5, 0.0, 0.5, 0.0)]})
    executor.wait(0.0)
    with pytest.raises(NoRoomError, match="trial 2 needs 1 CPUs and 0 GPUs on one machine, which is not there"):
        executor.assign(work(2, 2))
    executor.close()


class Released(Silent):
    """On a cluster that lives on: a worker that is released writes its last word a moment later."""

    record = Path()

    def send(self, command: Message) -> None:
        if command["do"] == "open":
            self.messages.append(said(Began(1, "w", 1.0), command["key"]))
        elif command["do"] == "release":
            threading.Timer(0.1, lambda: self.record.write_text(record(47.3, over=True))).start()


def test_a_worker_of_a_cluster_that_lives_on_is_charged_to_its_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Released.record = tmp_path / "workers" / "w.json"
    Released.record.parent.mkdir()
    Released.record.write_text(record(46.2, over=False))
    executor, link, _ = opened_on(Released, tmp_path, monkeypatch, address="10.0.0.1:6379")
    link.messages.append({"event": "nodes", "nodes": [Node("n", "h", 1.0, 1.0, 1.0, 1.0)]})
    executor.assign(work())
    executor.wait(0.1)
    (gone,) = (event for event in executor.close() if isinstance(event, Gone))
    assert gone.worker_seconds == 47.3


def test_a_worker_writes_its_age_until_its_last_word(tmp_path: Path) -> None:
    life, known = WorkerLife(), set(threading.enumerate())
    assert 0 < life.seconds() < time.clock_gettime(time.CLOCK_BOOTTIME)
    assert WorkerLife().name != life.name
    heartbeat = Heartbeat(life, tmp_path)
    heartbeat.holds(7, 4)
    (written,) = worker_records(tmp_path).values()
    assert (written.worker, written.slots, written.segment, written.over) == (life.name, 4, 7, False)
    assert written.seconds <= life.seconds()
    heartbeat.end()
    last = worker_records(tmp_path)
    assert last[life.name].over
    for beating in set(threading.enumerate()) - known:
        beating.join()  # it was just asleep, and used to write once more: seconds that nobody was charged for
    heartbeat.holds(7, 4)
    assert worker_records(tmp_path) == last


def test_lives_are_read_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    written = {"worker": "a-1", "seconds": 90.0, "slots": 4, "segment": 3, "host": "here", "pid": 1, "at": "now"}
    (folder / "a-1.json").write_text(json.dumps(written))
    (folder / "b-2.json").write_text(json.dumps({**written, "worker": "b-2", "segment": None}))
    (folder / "c-3.json").write_text(json.dumps(written)[:20])
    (folder / "d-4.json").write_text("{}")
    assert worker_records(tmp_path) == {
        "a-1": WorkerRecord("a-1", 90.0, 4, 3, host="here", pid=1),
        "b-2": WorkerRecord("b-2", 90.0, 4, None, host="here", pid=1),
    }
    assert worker_records(tmp_path)["a-1"].gpu_hours == pytest.approx(0.1)
    assert worker_records(tmp_path / "nowhere") == {}


def record(seconds: float, *, over: bool) -> str:
    return json.dumps({"worker": "w", "seconds": seconds, "slots": 1, "segment": None, "over": over})


def test_a_worker_that_ray_calls_dead_is_charged_what_it_has_recorded(tmp_path: Path) -> None:
    """Its host may be cut off from Ray, while it trains on and writes into the folder until it ends itself."""
    (tmp_path / "workers").mkdir()
    written = tmp_path / "workers" / "w.json"
    worker = elsewhere()
    written.write_text(record(12.0, over=False))
    worker.read(tmp_path, now=107.0)
    assert not worker.has_ended(now=107.0)
    worker.read(tmp_path, now=160.0)
    assert worker.lived(now=160.0) == 13.0  # what it had no time to record
    assert worker.has_ended(now=160.0)  # it is silent
    written.write_text(record(13.5, over=True))
    worker.read(tmp_path, now=161.0)
    assert worker.has_ended(now=161.0)
    assert worker.lived(now=200.0) == 13.5
