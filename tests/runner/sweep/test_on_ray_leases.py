"""The driver's side of the executor on Ray that needs no Ray: leases, room, messages, restarts, ages."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from budgets.errors import ClusterLostError, InputError
from runner.ports.backend import Point
from runner.ports.executor import Began, Ended, Event, Failed, Progress, Work
from runner.sweep.on_ray.cluster import Node
from runner.sweep.on_ray.known_workers import KnownWorker
from runner.sweep.on_ray.leases import ClusterResources, Leases, bundles_of, fits, require_fits, room
from runner.sweep.on_ray.link import MOST_JOINS, MOST_RESTARTS, Restarts
from runner.sweep.on_ray.messages import decoded, encoded, event_of, message_of


def work(trial: int = 1, segment: int = 1, **changes: Any) -> Work:
    return replace(Work(segment, trial, 0, {}, "folder", 0, 4, 60.0), **changes)


def heard(worker: str, lease: str, seconds: float) -> dict[str, Any]:
    return {"worker": worker, "lease": lease, "worker_seconds": seconds, "host": "h", "pid": 1, "node": "n"}


def node(name: str, cpus: float, gpus: float = 0.0, free_cpus: float = 0.0, free_gpus: float = 0.0) -> Node:
    return Node(name, name, cpus, gpus, free_cpus, free_gpus)


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
    first, second = leases.open(work(1), 0.0), leases.open(work(2, 2), 0.0)
    assert leases.parked_of(work(1)) is None
    first.work = second.work = None
    assert leases.parked_of(work(1)) is first
    assert leases.parked_of(work(1, cpus=2.0)) is None  # it would need another worker
    assert leases.to_end_for(None) is first
    leases.grant(first, work(1, 3))
    assert leases.under_way == [first]
    assert leases.of_segment(3) is first
    first.work = None
    assert leases.to_end_for(None) is second
    third = leases.open(work(3, 4, cpus=2.0), 0.0)
    second.bundles = third.bundles
    first.used = 0
    assert leases.to_end_for(third) is second  # whose worker fits


def test_a_worker_is_known_by_its_last_sign_and_may_serve_another_lease() -> None:
    leases = Leases()
    first = leases.open(work(1), 0.0)
    worker = leases.hear(heard("w", first.name, 5.0), now=100.0)
    assert worker.lived(103.0) == 8.0
    assert worker.lived(103.0, most_seconds=7.0) == 7.0  # no more was paid for
    assert leases.hear(heard("w", first.name, 4.0), now=101.0).seconds == 5.0  # it never grows younger
    assert not leases.reopen(first)
    first.work = None
    assert leases.spare() == [worker]
    leases.close(first.name)
    assert worker.lease is None
    second = leases.open(work(2), 0.0)
    assert leases.spare() == []  # the lease that waits may get it
    assert leases.reopen(second)
    assert not leases.reopen(second)
    leases.hear(heard("w", second.name, 6.0), now=102.0)
    assert worker.lease is second


def test_the_halves_of_a_split_trial_have_their_own_parts() -> None:
    assert bundles_of(work(cpus=2.0, gpus=0.5)) == ({"CPU": 2.0, "GPU": 0.5},)
    split = {"machine": {"split": True}}
    assert bundles_of(work(cpus=8.0, gpus=4.0, config=split)) == (
        {},
        {"CPU": 4.0, "GPU": 2.0},
        {"CPU": 4.0, "GPU": 2.0},
    )
    assert bundles_of(work(cpus=1.0, config=split)) == ({}, {"CPU": 1.0}, {"CPU": 1.0})


@pytest.mark.parametrize(
    ("cpus", "gpus", "places"), [(4, 0.0, 0), (4, 1.0, 4), (4, 0.5, 2), (1, 8.0, 1), (0.5, 8.0, 0)]
)
def test_a_quarter_of_a_gpu_fits_four_times(cpus: float, gpus: float, places: int) -> None:
    assert fits(({"CPU": 1.0, "GPU": 0.25},), cpus, gpus) == places


def test_room_is_what_others_leave_and_what_our_workers_hold() -> None:
    typical = ({"CPU": 1.0},)
    leases = Leases()
    lease = leases.open(work(cpus=2.0), 0.0)
    ours = leases.hear({**heard("w", lease.name, 1.0), "node": "a"}, 0.0)
    idle = KnownWorker("i", "h", 2, "b", 0.0, 0.0)
    nodes = [node("a", 4, free_cpus=1), node("b", 4, free_cpus=0)]
    assert room(nodes, [ours, idle], typical) == 3 + 1
    assert room(nodes, [], typical) == 1
    assert room([node("a", 2, free_cpus=2)], [ours], typical) == 2  # never more than there is


def test_what_no_machine_has_is_refused() -> None:
    nodes = [node("a", 4, 0), node("b", 8, 2)]
    assert ClusterResources(tuple(nodes)).largest() == (8, 2)
    require_fits(work(cpus=8.0, gpus=2.0), nodes)
    with pytest.raises(InputError, match=r"trial 1 needs 1 CPUs and 3 GPUs.*a: 4 CPUs, 0 GPUs; b: 8 CPUs, 2 GPUs"):
        require_fits(work(gpus=3.0), nodes)
    require_fits(work(cpus=12.0, config={"machine": {"split": True}}), nodes)
    with pytest.raises(InputError, match="13 CPUs"):
        require_fits(work(cpus=13.0, config={"machine": {"split": True}}), nodes)


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
