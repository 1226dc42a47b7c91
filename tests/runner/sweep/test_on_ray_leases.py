"""The driver's side of the executor on Ray that needs no Ray: leases, room, messages, restarts, ages."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from budgets.errors import ClusterLostError, InputError
from runner.ports.backend import Point
from runner.ports.executor import Began, Ended, Event, Failed, Progress, Work
from runner.sweep.on_ray.leases import Lease, Leases
from runner.sweep.on_ray.link import MOST_JOINS, MOST_RESTARTS, Restarts
from runner.sweep.on_ray.messages import decoded, encoded, event_of, message_of
from runner.sweep.on_ray.placing import Footprint, Place


def work(trial: int = 1, segment: int = 1, **changes: Any) -> Work:
    return replace(Work(segment, trial, 0, {}, "folder", 0, 4, 60.0), **changes)


def heard(worker: str, lease: str, seconds: float) -> dict[str, Any]:
    place = {"host": "h", "pid": 1, "node": "n", "nodes": ["n"]}
    return {"worker": worker, "lease": lease, "worker_seconds": seconds, **place}


def opened(leases: Leases, work: Work) -> Lease:
    return leases.open(work, Place(Footprint.of(work)), 0.0)


@pytest.mark.parametrize(
    "event",
    [
        Began(1, "w", 2.5),
        Progress(1, "w", 2.5, (Point(0, 0, 0, 1e-9, 0.1, 0.5, 0.1, {"loss": float("inf")}, ("slow",)),)),
        Ended(1, "w", 2.5, 7, "path", ("note",)),
        Failed(1, None, 2.5, "nan", "why", "tail — ü"),
    ],
)
def test_an_event_and_a_segment_survive_the_way_as_json(event: Event) -> None:
    assert event_of(decoded(encoded({**message_of(event), "host": "h"}))) == event
    sent = work(config={"a": [1, 2]})
    assert Work(**decoded(encoded({"work": asdict(sent)}))["work"]) == sent


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


def test_a_cluster_that_was_never_there_is_a_mistake_of_the_user() -> None:
    restarts = Restarts("10.0.0.1:6379")
    restarts.lost("refused", now=0.0)
    with pytest.raises(InputError, match=r"10\.0\.0\.1:6379.*refused"):
        restarts.check()
    later = Restarts("ray://10.0.0.1:10001")
    later.ready()
    later.lost("refused", now=0.0)
    assert not later.due(10.0)  # the cluster still keeps what the dead client has started
    assert later.due(12.0)


def test_a_cluster_that_is_too_busy_for_a_client_is_asked_again_and_one_that_is_not_there_is_not() -> None:
    busy = "ConnectionAbortedError: Initialization failure from server: Starting Ray client server failed."
    restarts = Restarts("ray://head:10001")
    for _ in range(MOST_JOINS - 1):
        restarts.lost(busy, 100.0)
        restarts.check()
        assert restarts.due(1000.0)
    restarts.lost(busy, 100.0)
    with pytest.raises(InputError, match="no cluster can be joined"):
        restarts.check()
    for address, reason in (("ray://head:10001", "connection refused"), ("head:6379", busy)):
        refused = Restarts(address)
        refused.lost(reason, 100.0)
        with pytest.raises(InputError, match="no cluster can be joined"):
            refused.check()
