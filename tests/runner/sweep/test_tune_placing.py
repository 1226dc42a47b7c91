"""How many trials a cluster has room for and where they go: what is counted can be placed, whole, on its nodes."""

import socket
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from budgets.errors import InputError
from planner.config.cluster import ACCELERATOR, ClusterSection
from runner.ports.executor import Work
from runner.sweep.tune.cluster import Node
from runner.sweep.tune.placement import (
    ClusterResources,
    Footprint,
    Hangs,
    Has,
    Place,
    Placement,
    require_fits,
    room,
    tightest,
    usable,
)
from runner.sweep.tune.workers import RayWorker
from runner.trainers.driver import Attempt
from runner.trainers.in_own_ray import free_ports
from runner.trainers.launch import meeting_port

QUARTER = Footprint(gpus=0.25)


def work(nodes: int = 1, **changes: Any) -> Work:
    config = {"machine": {"gpus": nodes, "nodes": nodes}} if nodes > 1 else {}
    return replace(Work(1, 1, 0, config, "folder", 0, 4, 60.0), **changes)


def node(name: str, cpus: float, gpus: float = 0.0, free_cpus: float = 0.0, free_gpus: float = 0.0) -> Node:
    return Node(name, name, cpus, gpus, free_cpus, free_gpus)


def idle(name: str, cpus: float, gpus: float = 0.0) -> Node:
    return node(name, cpus, gpus, cpus, gpus)


def worker(footprint: Footprint, *nodes: str) -> RayWorker:
    return RayWorker("1", Place(footprint), 1, None, 1, 0.0, 0.0, name="w", nodes=nodes)


def asked_for(footprint: Footprint, target: str) -> RayWorker:
    """One that has not said yet where it is."""
    return RayWorker("1", Place(footprint, target), 1, None, 1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("nodes", "needs", "times"),
    [
        ([(4, 0.5, 0)], QUARTER, 2),
        ([(1, 8, 0)], QUARTER, 1),
        ([(0.5, 8, 0)], QUARTER, 0),
        ([(96, 8, 0)] * 8, Footprint(8, 8, 8), 1),
        ([(96, 8, 0)] * 7 + [(96, 7, 0)], Footprint(8, 8, 8), 0),  # 63 GPUs, and no 64 of them
    ],
)
def test_only_whole_trials_count(nodes: list[Has], needs: Footprint, times: int) -> None:
    assert needs.times_in(nodes) == times


def placeable(free: list[int], parts: int) -> int:
    """The most trials that any way of placing them finds nodes for, by trying all."""
    ways = [[f - (i in on) for i, f in enumerate(free)] for on in combinations(range(len(free)), parts)]
    return max((1 + placeable(way, parts) for way in ways if min(way) >= 0), default=0)


@given(
    free=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    parts=st.integers(2, 3),
)
def test_what_is_counted_can_be_placed_and_no_more(free: list[int], parts: int) -> None:
    needs = Footprint(1.0, 1.0, parts)
    counted = needs.times_in([(8.0, float(f), 0.0) for f in free])
    assert counted == placeable(free, parts)
    for _ in range(counted):  # as Ray places them: on the emptiest nodes
        for at in sorted(range(len(free)), key=lambda at: -free[at])[:parts]:
            free[at] -= 1
    assert min(free) >= 0


def test_room_is_what_others_leave_and_what_our_workers_hold_on_all_their_nodes() -> None:
    one, two = Footprint(1.0), Footprint(2.0)
    nodes = [node("a", 4, free_cpus=1), node("b", 4, free_cpus=0)]
    assert room(nodes, [worker(two, "a"), worker(one, "b")], one) == 3 + 1
    assert room(nodes, [], one) == 1
    assert room([node("a", 2, free_cpus=2)], [worker(two, "a")], one) == 2  # never more than there is
    large = Footprint(8, 8, 2)
    taken = [node(name, 16, 8, free_cpus=8) for name in "abc"]
    assert room(taken, [], large) == 0
    assert room(taken, [worker(large, "a", "c")], large) == 1


def test_what_no_machine_has_is_refused_with_what_they_have() -> None:
    nodes = [idle("a", 4, 0), idle("b", 8, 2)]
    assert ClusterResources(tuple(nodes)).largest() == (8, 2)
    assert ClusterResources(tuple(nodes)).largest(2) == (8, 0)
    assert ClusterResources(tuple(nodes)).largest(3) == (0, 0)
    require_fits(work(cpus=8.0, gpus=2.0), nodes)
    has = r"\(a: 4 CPUs, 0 GPUs; b: 8 CPUs, 2 GPUs\)"
    with pytest.raises(InputError, match=rf"trial 1 needs 1 CPUs and 3 GPUs on one machine.*{has}: give it less"):
        require_fits(work(gpus=3.0), nodes)
    with pytest.raises(InputError, match=has):
        require_fits(work(cpus=12.0), nodes)
    with pytest.raises(InputError, match=r"\(a: 4 CPUs, 0 GPUs\): give"):
        require_fits(work(gpus=1.0), nodes[:1])


def test_a_trial_of_several_nodes_needs_whole_ones() -> None:
    nodes = [*(idle(f"n{i}", 96, 8) for i in range(6)), *(idle(f"m{i}", 48, 4) for i in range(4))]
    require_fits(work(10, gpus=40.0), nodes)
    has = r"\(6 machines: 96 CPUs, 8 GPUs each; 4 machines: 48 CPUs, 4 GPUs each\)"
    with pytest.raises(InputError, match=rf"needs 8 nodes with 1 CPUs and 8 GPUs each.*{has}: give it less, or join"):
        require_fits(work(8, gpus=64.0), nodes)


def test_parts_of_nodes_fill_one_node_before_the_next() -> None:
    nodes = [idle("a", 96, 8), node("b", 96, 8, 90, 4), idle("c", 96, 4)]
    two = Footprint(1.0, 2.0)
    assert tightest(two, nodes, []) == "b"  # of those with four free the one with the fewer CPUs
    assert tightest(two, nodes, [asked_for(two, "b"), asked_for(two, "b")]) == "c"
    assert tightest(two, [idle("a", 96, 8), node("b", 96, 8, 95, 6)], [worker(two, "b")]) == "b"
    assert tightest(Footprint(1.0, 8.0), nodes, []) is None  # no two fit on a node: nothing is to be chosen
    assert tightest(Footprint(1.0), nodes, []) is None
    assert tightest(Footprint(1.0, 2.0, 2), nodes, []) is None
    assert Place(two, "b").asked | {"bundles": []} == {
        "bundles": [],
        "strategy": "STRICT_PACK",
        "options": {"_soft_target_node_id": "b"},
    }


def test_a_node_that_hung_twice_in_a_row_is_left_out_as_long_as_there_are_others() -> None:
    hangs, nodes = Hangs(), [idle(name, 8, 8) for name in "abc"]
    assert hangs.hung(1, ["a"]) == set()
    assert hangs.unwanted_for(1) == {"a"}  # it is tried again elsewhere
    assert hangs.unwanted_for(2) == set()
    hangs.ended_well(["a"])
    assert hangs.hung(2, ["a"]) == set()
    assert hangs.hung(3, ["a", "b"]) == {"a"}
    assert hangs.left_out == {"a"}
    assert [one.node for one in usable(nodes, Footprint(1, 8, 2), hangs.left_out)] == ["b", "c"]
    assert usable(nodes, Footprint(1, 8, 3), hangs.left_out) == nodes
    assert hangs.unwanted_for(3) == {"a", "b"}


def test_only_machines_with_the_labels_are_used_and_each_trial_gets_its_memory() -> None:
    section = ClusterSection(accelerator="in(H100,H200)", labels={"zone": "!b"}, memory_gb_per_trial=300.0)
    placement = Placement.of(section)
    kinds = {"a": ("H100", "a"), "b": ("H200", "b"), "c": ("A100", "a"), "d": ("H200", "c")}
    nodes = [
        replace(idle(name, 64, 8), memory_gb=800.0, free_memory_gb=800.0, labels={ACCELERATOR: kind, "zone": zone})
        for name, (kind, zone) in kinds.items()
    ]
    ours = placement.among(nodes)
    assert [each.node for each in ours] == ["a", "d"]
    needs = Footprint.of(placement.applied(work(gpus=1.0)))
    assert room(ours, [], needs) == 4  # two on each, by memory
    assert needs.bundles == [{"CPU": 1.0, "GPU": 1.0, "memory": 300e9}]
    with pytest.raises(InputError, match=r"with 900 GB on one machine.*4 machines: 64 CPUs, 8 GPUs, 800 GB each"):
        require_fits(work(gpus=1.0, memory_gb=900.0), nodes)
    place = Place(needs, None, ("d",), tuple(placement.labels.items()))
    selector = {ACCELERATOR: "in(H100,H200)", "zone": "!b", "ray.io/node-id": "!in(d)"}
    assert place.asked["options"] == {"bundle_label_selector": [selector]}
    with pytest.raises(InputError, match=r"no machine .* has ray.io/accelerator-type = B200. They have .*: A100, H100"):
        Placement.of(ClusterSection(accelerator="B200")).require_some(nodes, [])


def test_trainers_listen_within_the_range_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    placement = Placement.of(ClusterSection(ports="23000-23099", runtime_env={"env_vars": {"A": "b"}}))
    assert placement.runtime_env == {"env_vars": {"A": "b", "RLPLAN_PORTS": "23000-23099"}}
    monkeypatch.setenv("RLPLAN_PORTS", "23000-23099")
    with socket.socket() as taken:
        taken.bind(("", 23050))
        ports = free_ports(99)
    assert set(ports) == set(range(23000, 23100)) - {23050}
    attempt = Attempt(Path("trial"), 1, 0, 4, None)
    assert 23000 <= meeting_port(attempt) <= 23099
    for wrong in ("23000", "23000-23050", "1-200", "65000-66000"):
        with pytest.raises(ValidationError, match="is no range of 100 ports"):
            ClusterSection(ports=wrong)
    with pytest.raises(ValidationError, match=r"\[trainer\] secrets = \[\"HF_TOKEN\"\]"):
        ClusterSection(runtime_env={"env_vars": {"HF_TOKEN": "x"}})
