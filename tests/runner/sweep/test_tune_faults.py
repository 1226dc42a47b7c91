"""What the executor does when a process dies under it; one executor goes through all of it."""

import os
import re
import signal
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psutil
import pytest

from runner.ports.executor import Began, Ended, Failed, Gone, Progress
from runner.processes import SWEEP_TAG, in_session, tagged
from runner.sweep.tune.executor import RayExecutor
from runner.sweep.worker_records import worker_records
from tests.conformance.works import FAR, Watched, Works

pytestmark = pytest.mark.soak
TAG = "rlplan-test-faults"
_segments = count(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def executor(folder: Path) -> Iterator[RayExecutor]:
    made = RayExecutor(folder / "sweep", 1, TAG)
    yield made
    made.close()
    assert not tagged({f"{SWEEP_TAG}={TAG}"})


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path, sleep=0.01, patience=1.0, _segments=_segments)


def named(name: str, tag: str = TAG) -> psutil.Process:
    """The process with a tag that has this name, or this text in its command."""
    for pid in tagged({f"{SWEEP_TAG}={tag}"}):
        process = psutil.Process(pid)
        if process.name() == name or name in " ".join(process.cmdline()):
            return process
    raise AssertionError(f"no process {name}")


def kill_and_go_on(executor: RayExecutor, works: Works, kill: Callable[[str], None]) -> tuple[Failed, list[Gone]]:
    """Kill something in the middle of a segment, then train the rest of it; return how the loss was reported."""
    watched = Watched(executor, works)
    work = works(to_step=FAR)
    executor.assign(work)
    watched.until(lambda: len(watched.points(work)) >= 6)
    (began,) = watched.of(Began, work)
    kill(began.worker)
    watched.until(watched.over(work))
    (failed,) = watched.of(Failed, work)
    assert (failed.kind, failed.worker) == ("lost", began.worker)
    assert failed.worker_seconds >= max(event.worker_seconds for event in watched.of(Progress, work))
    watched.until(lambda: [event for event in watched.of(Gone) if event.worker == began.worker])

    again = works(to_step=8)
    (ended,) = watched.run(again)
    assert isinstance(ended, Ended)
    assert [point.optimizer_step for point in watched.points(again)][-1] == 8
    assert ended.worker != began.worker
    return failed, watched.of(Gone)


def worker_pid(worker: str) -> int:
    return int(worker.rsplit("-", 2)[1])


def test_a_killed_worker_is_lost_with_its_segment(executor: RayExecutor, works: Works, folder: Path) -> None:
    failed, gone = kill_and_go_on(executor, works, lambda worker: os.kill(worker_pid(worker), signal.SIGKILL))
    assert "logs/ray-" not in failed.message  # Ray itself goes on
    (life,) = [life for life in worker_records(folder / "sweep").values() if life.worker == failed.worker]
    assert life.segment == failed.segment
    assert life.seconds <= failed.worker_seconds
    assert [event.worker for event in gone] == [failed.worker]


def test_no_other_user_enters_where_ray_lets_everybody_write(executor: RayExecutor) -> None:
    executor.resources()
    raylet = " ".join(named("raylet").cmdline())
    found = re.search(r"--session_dir=(/\S+/rlp-ray-\w+)/r/session_", raylet)
    assert found is not None, raylet
    assert stat.S_IMODE(os.stat(found[1]).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{found[1]}/r").st_mode) == 0o777  # which is why


@pytest.mark.parametrize("process", ["runner.sweep.tune.child", "raylet", "gcs_server"])
def test_ray_is_started_anew_when_a_part_of_it_dies(executor: RayExecutor, works: Works, process: str) -> None:
    before: set[int] = set()

    def kill(_worker: str) -> None:
        before.update(in_session(named("runner.sweep.tune.child").pid))
        named(process).kill()

    failed, _ = kill_and_go_on(executor, works, kill)
    assert "logs/ray-" in failed.message
    assert len(before) > 5
    assert not [pid for pid in before if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


def test_released_workers_end_and_the_next_segment_has_a_new_one(executor: RayExecutor, works: Works) -> None:
    watched = Watched(executor, works)
    first = works(trial=1, to_step=2)
    watched.run(first)
    executor.release()
    (parked,) = watched.of(Began, first)
    watched.until(lambda: parked.worker in {gone.worker for gone in watched.of(Gone)})

    fails = works(trial=1, fail="nan")  # its lease is over, its worker is kept for another
    watched.run(fails)
    (kept,) = watched.of(Began, fails)
    executor.release()
    watched.until(lambda: kept.worker in {gone.worker for gone in watched.of(Gone)})
    (ended,) = watched.run(works(trial=2, to_step=2))
    assert ended.worker not in (parked.worker, kept.worker)


def test_a_worker_that_dies_between_two_leases_costs_no_segment(executor: RayExecutor, works: Works) -> None:
    watched = Watched(executor, works)
    (failed,) = watched.run(works(trial=3, fail="nan"))
    os.kill(worker_pid(failed.worker), signal.SIGKILL)
    (ended,) = watched.run(works(trial=4, to_step=2))
    assert isinstance(ended, Ended)
    watched.until(lambda: failed.worker in {gone.worker for gone in watched.of(Gone)})
