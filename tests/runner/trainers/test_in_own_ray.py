"""A trial's own Ray: its folder, its share of a machine, how long it is waited for, and what it does as an orphan.

With a real Ray it is tried in tests/faults/test_many_nodes.py.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from runner.trainers import in_own_ray
from runner.trainers.supervisor import classify
from tests.runner.waiting import until

HOLDS = """
import sys, time
from runner.trainers import in_own_ray
in_own_ray.PLACE = sys.argv[1]
folder, lock = in_own_ray.private_folder()
print(folder, flush=True)
time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(in_own_ray, "PLACE", str(tmp_path))
    monkeypatch.setattr(in_own_ray, "NEW_SECONDS", 0.0)
    return tmp_path


def test_the_folder_of_a_start_that_was_killed_is_removed_by_the_next(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(place)], stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        left = Path(held.stdout.readline().strip())
        (left / "r").mkdir()
        ours, lock = in_own_ray.private_folder()
        assert left.is_dir()  # as long as its process lives
        held.kill()
    in_own_ray.private_folder()
    assert not left.exists()
    assert stat.S_IMODE(os.stat(ours).st_mode) == 0o700
    os.close(lock)


def test_ray_is_not_started_where_other_users_may_write(tmp_path: Path) -> None:
    theirs = tmp_path / "rlp-ray-theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    with pytest.raises(SystemExit, match="open to other users"):
        in_own_ray.require_private(str(theirs))
    os.close(in_own_ray.require_private(str(tmp_path / "rlp-ray-ours")))
    assert stat.S_IMODE((tmp_path / "rlp-ray-ours").stat().st_mode) == 0o700


def test_a_trial_with_a_part_of_the_gpus_has_that_part_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_own_ray, "gpus_here", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    cpus, store = in_own_ray.share(2)
    assert cpus == "--num-cpus=16"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < int(store.removeprefix("--object-store-memory=")) <= max(0.3 * memory / 4, in_own_ray.LEAST_STORE)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    assert in_own_ray.share(2)[0] == "--num-cpus=12"  # verl asks for three a GPU
    assert in_own_ray.share(8) == in_own_ray.share(0) == []  # all of it, as Ray takes it by itself


def given(folder: Path, **changes: object) -> str:
    found = {"address": "127.0.0.1", "nodes": 2, "gpus": 0, "meeting": str(folder / "meeting"), "seconds": 60.0}
    return json.dumps({**found, **changes})


def test_a_node_does_not_wait_for_ever_and_the_trial_is_tried_again(tmp_path: Path) -> None:
    command = [sys.executable, in_own_ray.__file__, given(tmp_path, seconds=0.1)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (ended.returncode, "its head has not written" in ended.stderr) == (1, True)
    assert classify(ended.returncode, ended.stderr, resumed=False)[0] == "lost"


def test_a_node_whose_worker_was_killed_ends_although_no_guard_is_left(tmp_path: Path) -> None:
    follow = [sys.executable, in_own_ray.__file__, given(tmp_path)]
    worker = f"import subprocess, time; print(subprocess.Popen({follow!r}, start_new_session=True).pid, flush=True)"
    with subprocess.Popen([sys.executable, "-c", f"{worker}; time.sleep(60)"], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        node = psutil.Process(int(killed.stdout.readline()))
        until(lambda: node.num_threads() > 1)  # it watches
        killed.kill()
    until(lambda: not node.is_running() or node.status() == psutil.STATUS_ZOMBIE)
