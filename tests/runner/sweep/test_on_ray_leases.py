"""The driver's side of the executor on Ray that needs no Ray: leases, room, messages, restarts, ages."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import ClusterLostError, InputError
from runner.ports.executor import Gone, Work
from runner.sweep.on_ray import executor as on_ray
from runner.sweep.on_ray.leases import Lease, Leases
from runner.sweep.on_ray.link import MOST_JOINS, MOST_RESTARTS, Restarts
from runner.sweep.on_ray.placing import Footprint, Place


def work(trial: int = 1, segment: int = 1, **changes: Any) -> Work:
    return replace(Work(segment, trial, 0, {}, "folder", 0, 4, 60.0), **changes)


def heard(worker: str, lease: str, seconds: float) -> dict[str, Any]:
    place = {"host": "h", "pid": 1, "node": "n", "nodes": ["n"]}
    return {"worker": worker, "lease": lease, "worker_seconds": seconds, **place}


def opened(leases: Leases, work: Work) -> Lease:
    return leases.open(work, Place(Footprint.of(work)), 0.0)


def test_a_trial_goes_on_under_its_parked_lease_and_the_least_recently_used_one_makes_room() -> None:
    leases = Leases()
    first, second = opened(leases, work(1)), opened(leases, work(2, 2))
    assert leases.parked_of(work(1)) is None
    first.work = second.work = None
    assert leases.parked_of(work(1)) is first
    assert leases.parked_of(work(1, cpus=2.0)) is None  # it would need another worker
    assert leases.to_end() == [first, second]
    leases.grant(first, work(1, 3), 0.0)
    assert leases.under_way == [first]
    assert leases.of_segment(3) is first
    first.work = None
    assert leases.to_end() == [second, first]


def test_the_worker_of_another_trial_is_taken_over_if_it_has_what_is_needed_where_it_may_be() -> None:
    leases = Leases()
    small, large = opened(leases, work(1)), opened(leases, work(2, 2, cpus=2.0))
    leases.hear(heard("w", large.name, 1.0), 0.0)
    assert leases.to_end_for(Footprint(cpus=2.0), ()) is None
    small.work = large.work = None
    assert leases.to_end_for(Footprint(cpus=1.0), ()) is small
    assert leases.to_end_for(Footprint(cpus=2.0), ()) is large
    assert leases.to_end_for(Footprint(cpus=2.0), {"n"}) is small  # it makes room, no more
    assert large.can_give(Footprint(cpus=2.0), {"m"})
    assert not large.can_give(Footprint(cpus=2.0), {"n"})


def test_a_worker_is_known_by_its_last_sign_and_may_serve_another_lease() -> None:
    leases = Leases()
    first = opened(leases, work(1))
    worker = leases.hear(heard("w", first.name, 5.0), now=100.0)
    assert worker.lived(103.0) == 8.0
    assert worker.lived(103.0, most_seconds=7.0) == 7.0  # no more was paid for
    assert leases.hear(heard("w", first.name, 4.0), now=101.0).seconds == 5.0  # it never grows younger
    assert not leases.reopen(first, 0.0)
    first.work = None
    assert leases.spare() == [worker]
    leases.close(first.name)
    assert worker.lease is None
    second = opened(leases, work(2))
    assert leases.spare() == []  # the lease that waits may get it
    assert leases.reopen(second, 0.0)
    assert not leases.reopen(second, 0.0)
    leases.hear(heard("w", second.name, 6.0), now=102.0)
    assert worker.lease is second


def test_restarts_wait_longer_and_longer_until_a_segment_has_ended() -> None:
    restarts = Restarts(None)
    waits = []
    for loss in range(MOST_RESTARTS):
        restarts.lost("it broke", now=100.0)
        waits.append(next(wait for wait in (0, 1, 2, 4, 8, 16) if restarts.due(100.0 + wait)))
        if loss == 0:
            restarts.worked()
    assert waits == [0, 0, 1, 2, 4]
    restarts.lost("it broke", now=100.0)
    assert restarts.pending
    restarts.due(200.0)
    restarts.lost("it broke", now=100.0)
    assert not restarts.pending
    with pytest.raises(ClusterLostError, match=r"6 times .* it broke\. What was trained is saved"):
        restarts.check()


BUSY = "ConnectionAbortedError: Initialization failure from server: Starting Ray client server failed."


@pytest.mark.parametrize(
    ("address", "reason", "joins"),
    [
        ("10.0.0.1:6379", "refused", 1),
        ("ray://head:10001", "connection refused", 1),
        ("head:6379", BUSY, 1),
        ("ray://head:10001", BUSY, MOST_JOINS),  # it is there, and too busy for a client
    ],
)
def test_a_cluster_that_was_never_there_is_a_mistake_of_the_user(address: str, reason: str, joins: int) -> None:
    restarts = Restarts(address)
    for _ in range(joins - 1):
        restarts.lost(reason, 100.0)
        restarts.check()
        assert restarts.due(1000.0)
    restarts.lost(reason, 100.0)
    with pytest.raises(InputError, match=f"no cluster can be joined at '{address}': {reason}"):
        restarts.check()


def test_a_client_that_has_lost_its_cluster_waits_until_that_has_let_go_of_it() -> None:
    restarts = Restarts("ray://10.0.0.1:10001")
    restarts.ready()
    restarts.lost("refused", now=0.0)
    assert not restarts.due(10.0)  # the cluster still keeps what the dead client has started
    assert restarts.due(12.0)


class Cluster:
    """A cluster that lives on: a worker that is released writes its last word a moment later."""

    def __init__(self, folder: Path) -> None:
        self._record = folder / "workers" / "w.json"
        self._record.parent.mkdir()
        self._writes(46.2, over=False)
        nodes = {"event": "nodes", "nodes": [{"node": "n", "host": "h"} | dict.fromkeys(ROOM, 1.0)]}
        self._messages: list[dict[str, Any]] = [nodes]

    def _writes(self, seconds: float, *, over: bool) -> None:
        record = {"worker": "w", "seconds": seconds, "slots": 1, "segment": None, "over": over}
        aside = self._record.with_suffix(".writing")
        aside.write_text(json.dumps(record))
        aside.replace(self._record)

    def send(self, command: dict[str, Any]) -> None:
        if command["do"] == "lease":
            self._messages.append({"event": "began", "segment": 1} | heard("w", command["lease"], 1.0))
        elif command["do"] == "release":
            threading.Timer(0.1, lambda: self._writes(47.3, over=True)).start()

    def receive(self, _seconds: float) -> dict[str, Any] | None:
        return self._messages.pop(0) if self._messages else None

    def wait_for_the_end(self, _seconds: float) -> None: ...

    def end(self) -> int:
        return 0


ROOM = ("cpus", "gpus", "free_cpus", "free_gpus")


def test_a_worker_of_a_cluster_that_lives_on_is_charged_to_its_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray, "Link", lambda _start: Cluster(tmp_path))
    executor = on_ray.RayExecutor(tmp_path, 1, "tag", address="10.0.0.1:6379")
    executor.assign(work())
    executor.wait(0.1)
    (gone,) = (event for event in executor.close() if isinstance(event, Gone))
    assert gone.worker_seconds == 47.3
