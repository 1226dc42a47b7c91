"""Trials of many GPUs on eight Ray nodes of eight, which are declared: placed whole, side by side, and elsewhere."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from runner.ports.executor import Began, Ended, Failed, Gone, Work
from runner.processes import SWEEP_TAG, WORKER_TAG, tagged
from runner.sweep.tune.executor import RayExecutor
from tests.conformance.works import FAR, Watched, Works, steps
from tests.faults import reserved
from tests.faults.many_nodes import ROOT, ManyNodes, many_nodes
from tests.runner.waiting import until

pytestmark = pytest.mark.soak
TAG = "rlplan-test-many-nodes"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ManyNodes]:
    folder = Path(tempfile.mkdtemp(prefix="rlp-", dir="/tmp"))  # short: it begins the names of sockets
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_AUTH_MODE", "token")
        environment.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        with many_nodes(folder, f"{TAG}-cluster", 8, 8) as nodes:
            yield nodes
    shutil.rmtree(folder, ignore_errors=True)


class Large:
    """Makes segments of trials with GPUs on nodes."""

    def __init__(self, folder: Path) -> None:
        self.works = Works(folder, sleep=0.2, patience=1.0)

    def __call__(self, trial: int, nodes: int, gpus: int, **changes: Any) -> Work:
        work = self.works(trial, **changes, gpus=float(gpus), slots=gpus)
        work.config["machine"] |= {"gpus": gpus, "nodes": nodes}
        return work

    def driven(self, trial: int, nodes: int, gpus: int, **changes: Any) -> Work:
        """One whose stand-in for a trainer has a process on each node, and saves every two steps."""
        work = self(trial, nodes, gpus, **changes)
        options = {"time_scale": 100, "save_every_steps": 2, "gated": False}
        work.config["trainer"] = TrainerChoice(name="standin", options=options).model_dump(mode="json")
        return work


@pytest.fixture
def large(tmp_path: Path) -> Large:
    return Large(tmp_path)


@pytest.fixture
def executor(cluster: ManyNodes, tmp_path: Path) -> Iterator[RayExecutor]:
    """Join the cluster; nothing of the sweep is left in the end."""
    made = RayExecutor(tmp_path / "sweep", 32, TAG, cluster.address, gpus=8.0)
    made.open()
    yield made
    made.close()
    assert not tagged({f"{SWEEP_TAG}={TAG}"})


@pytest.fixture
def watched(executor: RayExecutor, large: Large) -> Watched:
    watched = Watched(executor, large.works)
    watched.until(lambda: executor.workers == 8)
    return watched


def nodes_of(executor: RayExecutor, work: Work) -> tuple[str, ...]:
    worker = executor._workers.of_segment(work.segment)
    assert worker is not None
    return worker.nodes


def test_nodes_on_which_trials_hung_are_left_out(executor: RayExecutor, large: Large, watched: Watched) -> None:
    for trial in (1, 2):
        (failed,) = watched.run(large(trial, 7, 56, fail="hang"))
        assert failed.kind == "hang"
    assert "left out from now on" in failed.message
    whole = large(3, 1, 8, to_step=FAR)
    watched.until(lambda: executor.workers in (1, 2))  # of eight without the six or seven that both were on
    executor.assign(whole)
    watched.until(lambda: watched.points(whole), rounds=3000)
    assert not set(nodes_of(executor, whole)) & executor._hangs.left_out


def test_trials_of_many_gpus_run_side_by_side_and_have_whole_nodes(
    cluster: ManyNodes, executor: RayExecutor, large: Large, watched: Watched
) -> None:
    assert executor.resources().largest(8) == (32, 64)
    eight = [large(trial, 1, 8, to_step=FAR) for trial in range(1, 9)]
    for work in eight:
        executor.assign(work)
    watched.until(lambda: all(len(watched.points(work)) >= 4 for work in eight), rounds=3000)
    assert {nodes_of(executor, work) for work in eight} == {(node,) for node in cluster.raylets}
    for work in eight:
        executor.stop(work.segment)
    watched.until(watched.over(*eight), rounds=3000)
    assert len({began.worker for began in watched.of(Began)}) == 8

    (ended,) = watched.run(large(9, 8, 64, to_step=4))  # whose parked neighbours make room
    assert (type(ended), ended.step) == (Ended, 4)


def test_beside_parts_of_nodes_a_trial_of_six_loses_one_and_goes_on_elsewhere(
    cluster: ManyNodes, executor: RayExecutor, large: Large, watched: Watched
) -> None:
    parts = [large(trial, 1, 2, to_step=FAR) for trial in range(1, 7)]
    for work in parts:
        executor.assign(work)
    watched.until(lambda: all(watched.points(work) for work in parts), rounds=3000)
    on = [nodes_of(executor, work)[0] for work in parts]
    assert len(set(on)) == 2  # four on one, two on the next
    six = large.driven(7, 6, 48, to_step=FAR)
    executor.assign(six)
    watched.until(lambda: len(watched.points(six)) >= 6, rounds=3000)
    its = nodes_of(executor, six)
    assert set(its) == set(cluster.raylets) - set(on)
    assert len(standins()) == 6
    for work in parts:
        executor.stop(work.segment)
    watched.until(watched.over(*parts), rounds=3000)
    executor.release()

    worker, known = watched.of(Began, six)[0].worker, executor._workers.of_segment(six.segment)
    assert known is not None
    cluster.kill(next(node for node in its if node not in (cluster.head, known.node)))
    watched.until(watched.over(six), rounds=3000)
    (failed,) = watched.of(Failed, six)
    assert (failed.kind, failed.worker) == ("lost", worker)
    assert "is gone" in failed.message
    watched.until(lambda: worker in {gone.worker for gone in watched.of(Gone)})
    watched.until(lambda: len(executor.resources().nodes) == 7)
    watched.until(lambda: executor.workers == 7)  # Ray has taken back what the lost worker had
    with pytest.raises(InputError, match=r"8 nodes with 1 CPUs and 8 GPUs each.*7 machines: 4 CPUs, 8 GPUs each"):
        executor.assign(large(8, 8, 64))

    made = steps(watched.points(six))
    rest = large.driven(7, 6, 48, to_step=made[-1] + 20)  # beyond what was saved and not yet reported
    watched.executor.assign(rest)
    watched.until(watched.over(rest), rounds=3000)
    (ended,) = watched.of(Ended, rest)
    assert ended.step == made[-1] + 20
    assert ended.worker != worker
    second = json.loads((Path(rest.folder) / "trainer" / "standin-2.json").read_text())
    assert 0 < second["from_step"] < ended.step  # of the checkpoint
    assert steps(watched.points(rest)) == list(range(ended.step + 1))  # those before it are told once more
    scores = {point.optimizer_step: point.score for point in watched.points(rest)}
    assert all(scores[point.optimizer_step] == point.score for point in watched.points(six))


def standins() -> set[int]:
    found = tagged({f"{SWEEP_TAG}={TAG}"})
    return {pid for pid in found if "runner.trainers.standin.process" in psutil.Process(pid).cmdline()}


def test_a_worker_uses_all_its_nodes_and_nothing_outlives_it(cluster: ManyNodes, tmp_path: Path) -> None:
    with (tmp_path / "stderr.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.reserved", cluster.address, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if line.startswith("{")), None)
        assert line is not None, (tmp_path / "stderr.log").read_text()
        found = json.loads(line)
        assert [sorted(gpus.split(",")) for gpus in found["gpus"]] == [[str(gpu) for gpu in range(8)]] * 3
        assert found["codes"] == [0, 1, 2]
        assert [log.split()[0] for log in found["logs"]] == ["0", "1", "2"]
        code, said = found["own_ray"]
        assert (code, "nodes 3 24.0" in said) == (0, True), said
        until(lambda: len(ours()) >= 6)  # two on each node, of which one forks the other
        os.kill(found["pid"], signal.SIGKILL)
        until(lambda: not ours())
    finally:
        process.kill()
        process.communicate()


def ours() -> set[int]:
    return tagged({f"{SWEEP_TAG}={reserved.TAG}", f"{WORKER_TAG}={reserved.WORKER}"})
