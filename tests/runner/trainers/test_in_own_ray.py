"""The folders of Rays that are started here: no other user enters them, and those of killed starts are removed."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runner.trainers import in_own_ray

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
