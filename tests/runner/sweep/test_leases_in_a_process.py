"""Processes between driver and trainer: one that Tune starts in vain takes no message, one whose driver died ends."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from runner.sweep.on_ray import child as child_module
from runner.sweep.on_ray import tune_parts
from runner.sweep.on_ray.tune_parts import LeaseTrainable


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
    monkeypatch.setattr(child_module, "sweep_orphans", ended.append)
    monkeypatch.setattr(child_module.os, "_exit", lambda code: ended.append("exit"))
    given = {"events": os.open(os.devnull, os.O_WRONLY), "settings": {"tag": "a tag"}, "temporary": str(tmp_path / "t")}
    child = child_module._Child(given)

    def interrupted() -> None:
        with child._lock:
            child.leave("the driver is gone")

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(20)
    assert ended == ["session", "a tag", "exit"]
