"""Processes between driver and trainer: one that Tune starts in vain takes no message, one whose driver died ends."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import ray

from runner.sweep.on_ray import child as child_module
from runner.sweep.on_ray import tune_parts, worker_process
from runner.sweep.on_ray.messages import Mailbox
from runner.sweep.on_ray.session import RayStart
from runner.sweep.on_ray.tune_parts import LeaseTrainable
from runner.sweep.on_ray.worker_process import Watchdog, WorkerProcess


class Listening:
    """Stands in for the process behind leases."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, lease: str) -> None:
        self.begun.append(lease)

    def news(self) -> list[dict[str, Any]]:
        return [{"event": "progress"}]


def test_a_lease_begins_where_tune_takes_its_first_step_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Listening()
    monkeypatch.setattr(tune_parts, "_process", [process])
    trainable = LeaseTrainable.__new__(LeaseTrainable)  # as Tune makes it, without the cluster that it asks for
    trainable.setup({"lease": "a"})
    assert not process.begun
    trainable.step()
    trainable.step()
    assert process.begun == ["a"]
    assert trainable.reset_config({"lease": "b"})
    assert process.begun == ["a"]
    trainable.step()
    assert process.begun == ["a", "b"]


def test_a_signal_in_the_middle_of_a_write_does_not_keep_ray_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is killed while a message to it is under way: the thread that leaves holds the lock itself."""
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
    assert ended == ["session", "a tag of a driver", "exit"]


class Far:
    """A mailbox behind a network: what each call meets there."""

    def __init__(self, *meets: Exception | None) -> None:
        self.mailbox, self.meets = Mailbox(), list(meets)
        self.fetch = self

    def remote(self, box: str, seen: int, seconds: float) -> Any:
        messages = asyncio.run(self.mailbox.fetch(box, seen, 0.0))  # it is asked, and then the answer is lost
        return self.meets.pop(0) or messages


def got(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_a_connection_that_drops_for_a_moment_costs_no_worker_and_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = [ray.exceptions.ActorUnavailableError("the connection was reset", None) for _ in range(2)]
    far = Far(*cut, None, ray.exceptions.RaySystemError("the same"), None, ray.exceptions.ActorDiedError())
    asyncio.run(far.mailbox.tell("a", {"do": "stop"}))
    monkeypatch.setattr(ray, "get", got)
    monkeypatch.setattr(worker_process, "_SECONDS_BETWEEN_TRIES", 0.0)
    process = WorkerProcess.__new__(WorkerProcess)
    process._mailbox, process._numbers = far, {}
    process._watchdog = Watchdog(lambda: 0.0, lambda: None)
    assert [message["do"] for message in process._fetch("a")] == ["stop"]
    assert process._fetch("a") == []  # each message once
    assert not process._watchdog._deaf
    with pytest.raises(ray.exceptions.ActorDiedError):  # which nothing heals
        process._fetch("a")
    assert process._watchdog._deaf
