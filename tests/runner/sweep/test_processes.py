"""Processes are found by their tag and ended, however they were started."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from runner.processes import DRIVER_TAG, SWEEP_TAG, WORKER_TAG, end_session, in_session, sweep_orphans, tagged
from runner.sweep.tune.link import Link
from runner.sweep.tune.messages import RayStart

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], start_new_session=True)"


@pytest.fixture
def tag() -> Iterator[str]:
    tag = f"rlplan-test-{uuid4().hex}"
    yield tag
    sweep_orphans(tag)


def start(
    program: str, stack: ExitStack, *words: object, first: str = "up", new_session: bool = False, **variables: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, words)]
    environment, pipe = {**os.environ, "PYTHONPATH": os.getcwd(), **variables}, subprocess.PIPE
    process = stack.enter_context(
        subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True, start_new_session=new_session)
    )
    assert process.stdout is not None
    assert any(first in line for line in process.stdout)
    return process


def test_a_grandchild_that_ignores_sigterm_in_a_session_of_its_own_is_killed(tag: str) -> None:
    with ExitStack() as stack:
        parent = start(PARENT, stack, **{SWEEP_TAG: tag})
        assert parent.wait() == 0
        assert sweep_orphans(tag) == 1
        assert not tagged({f"{SWEEP_TAG}={tag}"})
        assert sweep_orphans(tag) == 0


WIPED = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], env={{}}).wait()"


def test_what_has_written_over_its_environment_is_found_by_its_kin(tag: str) -> None:
    with ExitStack() as stack:
        parent = start(WIPED, stack, **{SWEEP_TAG: tag})
        (child,) = psutil.Process(parent.pid).children()
        assert sweep_orphans(tag) == 2  # though the parent, by which it is found, ends first
        assert parent.wait() == -15
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


# In a session of its own, without a word in its environment, and with a parent that is gone.
ORPHAN = "(env -i setsid sh -c 'echo $$ > orphan; exec sleep 60' &) ; until [ -s orphan ]; do sleep 0.02; done"
ADOPTING = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from runner.processes import adopt_orphans, tagged
from runner.trainers.hosts import LocalHost
adopt_orphans()
folder = Path(sys.argv[2])
process = LocalHost().start(("sh", "-c", f"{sys.argv[3]}; touch left; exec sleep 60"), {}, folder, folder / "log")
while not (folder / "left").exists():
    time.sleep(0.02)
process.kill()
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a kernel that lets orphans be adopted")
def test_what_a_trainer_has_left_without_a_trace_ends_with_it_all_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ADOPTING, os.getcwd(), str(tmp_path), ORPHAN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "up\n"
        assert not psutil.pid_exists(int((tmp_path / "orphan").read_text()))  # nor is it a zombie
        assert psutil.Process(worker.pid).children() == []
        worker.kill()


def test_only_what_one_worker_started_is_ended(tag: str) -> None:
    with ExitStack() as stack:
        first = start(STUBBORN, stack, **{SWEEP_TAG: tag, WORKER_TAG: "a"})
        second = start(STUBBORN, stack, **{SWEEP_TAG: tag, WORKER_TAG: "b"})
        other = start(STUBBORN, stack, **{SWEEP_TAG: f"{tag}-other", WORKER_TAG: "a"})
        assert sweep_orphans(tag, "a") == 1
        assert first.wait() == -9
        assert second.poll() is None
        assert other.poll() is None
        assert sweep_orphans(tag) == 1
        assert sweep_orphans(f"{tag}-other") == 1


def test_a_driver_that_has_lost_its_sweep_ends_its_own_processes_alone(tag: str, tmp_path: Path) -> None:
    link = Link(RayStart(str(tmp_path), tag, "127.0.0.1:1", 1, 0))  # a cluster that is not there
    driver = link._start.driver
    with ExitStack() as stack:
        own = start(STUBBORN, stack, **{SWEEP_TAG: tag, DRIVER_TAG: driver})
        others = start(STUBBORN, stack, **{SWEEP_TAG: tag, DRIVER_TAG: "another"})
        link.end()
        assert own.wait() == -9
        assert others.poll() is None
        assert sweep_orphans(tag) == 1  # as who has the lease does


GUARDED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from runner.processes import sweep_after_death
guard = sweep_after_death(sys.argv[2], "a")
print("up", flush=True)
time.sleep(60)
"""


def test_what_a_worker_has_started_is_ended_after_its_death_even_if_its_children_die_first(tag: str) -> None:
    with ExitStack() as stack:
        left = start(STUBBORN, stack, **{SWEEP_TAG: tag, WORKER_TAG: "a"})
        others = start(STUBBORN, stack, **{SWEEP_TAG: tag, WORKER_TAG: "b"})
        worker = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", GUARDED, os.getcwd(), tag], stdout=subprocess.PIPE, text=True)
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "up\n"
        assert left.poll() is None
        for child in psutil.Process(worker.pid).children(recursive=True):
            child.kill()  # as Ray does when a worker has died
        worker.kill()
        assert left.wait() == -9
        assert others.poll() is None
        sweep_orphans(tag)


KILLED = f"""
import subprocess, sys, time
from runner.processes import adopt_orphans
adopt_orphans()
subprocess.run(["sh", "-c", {ORPHAN!r}], check=True, cwd=sys.argv[1])
print("up", flush=True)
time.sleep(60)
"""
SEEING = """
import psutil, sys
from runner.processes import stand_guard
descend = psutil.Process.children
def shown(process, recursive):
    print(*(seen := descend(process, recursive=recursive)), flush=True)
    return seen
psutil.Process.children = shown
stand_guard(int(sys.argv[1]), sys.argv[2], "a")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a kernel that lets orphans be adopted")
def test_what_a_trainer_has_left_without_a_trace_ends_when_its_worker_is_killed(tag: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        worker = start(KILLED, stack, tmp_path)
        orphan = psutil.Process(int((tmp_path / "orphan").read_text()))
        guard = start(SEEING, stack, worker.pid, tag, first=f"pid={orphan.pid}")
        worker.kill()
        assert orphan.is_running()
        guard.communicate("")  # the end of the pipe that the worker held
        assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE


def test_a_session_is_killed_whole(tag: str) -> None:
    with ExitStack() as stack:
        leader = start(STUBBORN, stack, **{SWEEP_TAG: tag}, new_session=True)
        assert in_session(leader.pid) == {leader.pid}
        assert end_session(leader.pid) == 1
        assert leader.wait() == -9
        assert not in_session(leader.pid)


def test_the_caller_is_spared(tag: str) -> None:
    program = f"from runner.processes import sweep_orphans; import sys\nsys.exit(sweep_orphans({tag!r}))"
    assert (
        subprocess.run([sys.executable, "-c", program], env={**os.environ, SWEEP_TAG: tag}, check=False).returncode == 0
    )
