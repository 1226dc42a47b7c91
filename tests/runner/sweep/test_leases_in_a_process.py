"""A process that Ray Tune starts for a lease and then does not use: it takes none of the lease's messages."""

from typing import Any

import pytest

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
