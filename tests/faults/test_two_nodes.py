"""A sweep's executor across two nodes, one of which is killed in the middle."""

import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.ports.executor import Began, Failed, Gone
from runner.processes import SWEEP_TAG, tagged
from runner.sweep.tune.executor import RayExecutor
from tests.conformance.works import FAR, Watched, Works
from tests.faults.torment import PATIENCE, Tormented, check, undisturbed
from tests.faults.two_nodes import TwoNodes, two_nodes

pytestmark = pytest.mark.soak
TAG = "rlplan-test-two-nodes"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoNodes]:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")  # who joins needs both, as docs/cluster.md says
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    folder = Path(tempfile.mkdtemp(prefix="rlp-", dir="/tmp"))  # short: it begins the names of sockets
    with two_nodes(folder, f"{TAG}-cluster") as nodes:
        yield nodes
    shutil.rmtree(folder, ignore_errors=True)


def test_no_worker_is_charged_for_a_second_before_it_was_asked_for(cluster: TwoNodes, tmp_path: Path) -> None:
    works = Works(tmp_path, patience=1.0)
    executor = RayExecutor(tmp_path / "sweep", 2, TAG, cluster.address)
    watched = Watched(executor, works)

    def idle_seconds() -> float:
        """How long Ray has had a process ready for whom it may concern."""
        processes = [psutil.Process(pid) for pid in tagged({f"{SWEEP_TAG}={cluster.tag}"})]
        born = [process.create_time() for process in processes if process.name() == "ray::IDLE"]
        return max((time.time() - each for each in born), default=0.0)

    try:
        executor.open()
        watched.until(lambda: executor.workers == 2 and idle_seconds() > 10)
        asked_at = time.monotonic()
        watched.run(works(trial=1, to_step=1), works(trial=2, to_step=1))
        waited = time.monotonic() - asked_at
        assert len(watched.of(Began)) == 2
        assert all(0 < began.worker_seconds < waited for began in watched.of(Began))
    finally:
        executor.close()


def test_what_a_killed_node_ran_runs_again_on_the_other(cluster: TwoNodes, tmp_path: Path) -> None:
    works = Works(tmp_path, sleep=0.01, patience=1.0)
    executor = RayExecutor(tmp_path / "sweep", 8, TAG, cluster.address)
    watched = Watched(executor, works)
    try:
        assert sorted(node.cpus for node in executor.resources().nodes) == [1, 1]
        assert executor.resources().largest() == (1, 0)
        watched.until(lambda: executor.workers == 2)
        both = works(trial=1, to_step=FAR), works(trial=2, to_step=FAR)
        for work in both:
            executor.assign(work)
        watched.until(lambda: all(len(watched.points(work)) >= 6 for work in both))
        pids = {work.trial: int(watched.of(Began, work)[0].worker.rsplit("-", 2)[1]) for work in both}
        (lost,) = [work for work in both if cluster.runs_on(cluster.other, pids[work.trial])]
        (kept,) = [work for work in both if cluster.runs_on(cluster.head, pids[work.trial])]

        cluster.other.kill()
        watched.until(watched.over(lost))
        (failed,) = watched.of(Failed, lost)
        assert failed.kind == "lost"
        watched.until(lambda: failed.worker in {gone.worker for gone in watched.of(Gone)})
        watched.until(lambda: executor.workers == 1)
        assert not watched.over(kept)()

        executor.stop(kept.segment)
        watched.until(watched.over(kept))
        (ended,) = watched.run(works(trial=lost.trial, to_step=8))
        assert ended.step == 8
        assert ended.worker != failed.worker
    finally:
        executor.close()
    assert not tagged({f"{SWEEP_TAG}={TAG}"})
    assert cluster.head.is_running()  # the cluster is another's


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


def test_a_ray_that_comes_back_with_one_node_of_two_costs_what_ran_and_no_trial(
    cluster: TwoNodes, tmp_path: Path, calm: dict[str, Any]
) -> None:
    sweep = Tormented(tmp_path, cluster.address)
    process = sweep.drive()
    assert sweep.trains(process), (tmp_path / "driver.log").read_text()
    cluster.come_back_alone()
    assert process.wait(PATIENCE * 3) == 0, (tmp_path / "driver.log").read_text()
    assert 1 <= sweep.rows("SELECT count(*) FROM segments WHERE outcome = 'lost'")[0][0] <= 4
    check(sweep, calm)


def test_a_client_outside_of_the_cluster_drives_it_too(cluster: TwoNodes, tmp_path: Path) -> None:
    works = Works(tmp_path, sleep=0.01, patience=1.0)
    executor = RayExecutor(tmp_path / "sweep", 8, TAG, cluster.client_address)
    watched = Watched(executor, works)
    try:
        assert len(executor.resources().nodes) == 2
        watched.until(lambda: executor.workers == 2)
        both = works(trial=1, to_step=4), works(trial=2, to_step=FAR)
        for work in both:
            executor.assign(work)
        watched.until(watched.over(both[0]))
        # What the other one occupies counts as somebody else's until its worker is heard of, which may be later.
        watched.until(lambda: executor.workers == 2)
        (ended,) = watched.run(works(trial=1, from_step=4, to_step=6))
        assert ended.step == 6
        watched.until(lambda: watched.points(both[1]))
    finally:
        watched.close()
    (failed,) = watched.of(Failed)
    assert failed.segment == both[1].segment
    workers = {began.worker for began in watched.of(Began)}
    assert {gone.worker for gone in watched.of(Gone)} == workers
    for _ in range(200):
        if not any(_lives(int(worker.rsplit("-", 2)[1])) for worker in workers):
            break
        time.sleep(0.1)
    assert not [worker for worker in workers if _lives(int(worker.rsplit("-", 2)[1]))]


def _lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
