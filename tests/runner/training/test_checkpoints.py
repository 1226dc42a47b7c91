import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from budgets.errors import CheckpointError, NotFoundError
from runner.training import checkpoints

STATE = {"weights": torch.arange(2000.0), "counts": [1, 2, {"none": None}], "name": "x"}


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_what_is_saved_is_restored_and_the_last_two_are_kept(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, 7, STATE)
    restored = checkpoints.load(tmp_path)
    assert restored.path == path
    assert restored.notes == ()
    assert torch.equal(restored.state["weights"], STATE["weights"])
    assert restored.state["counts"] == STATE["counts"]
    for step in (8, 10):
        checkpoints.save(tmp_path, step, STATE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-00000008.pt", "checkpoint-00000010.pt"]


@pytest.mark.parametrize("at", [3, 40, 90, 5000, -1])
@pytest.mark.parametrize("cut", [False, True])
def test_a_damaged_or_cut_one_falls_back_and_says_so(tmp_path: Path, at: int, cut: bool) -> None:
    checkpoints.save(tmp_path, 1, STATE)
    path = checkpoints.save(tmp_path, 2, STATE)
    if cut:
        path.write_bytes(path.read_bytes()[:at])
    else:
        damage(path, at)
    restored = checkpoints.load(tmp_path)
    assert restored.path.name == "checkpoint-00000001.pt"
    assert "checkpoint-00000002.pt is damaged" in restored.notes[0]


def test_without_a_sound_one_each_is_named(tmp_path: Path) -> None:
    damage(checkpoints.save(tmp_path, 1, STATE), 500)
    assert checkpoints.exists(tmp_path)
    with pytest.raises(NotFoundError, match=r"no sound checkpoint.*checkpoint-00000001.pt is damaged"):
        checkpoints.load(tmp_path)
    assert not checkpoints.exists(tmp_path / "none")
    with pytest.raises(NotFoundError, match="no sound checkpoint in"):
        checkpoints.load(tmp_path / "none")


def test_a_half_written_one_is_not_there(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, STATE)
    (tmp_path / "checkpoint-00000002.writing").write_bytes(b"half")
    assert checkpoints.load(tmp_path).path.name == "checkpoint-00000001.pt"


def test_a_full_disk_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save(tmp_path, 1, STATE)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        CheckpointError, match=r"step 2 cannot be written.*the disk is full: .* MB free.*checkpoint-00000001.pt stands"
    ):
        checkpoints.save(tmp_path, 2, STATE)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000001.pt"]
    assert checkpoints.load(tmp_path).path.name == "checkpoint-00000001.pt"


def test_a_checkpoint_holds_no_code(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, {"path": Path("x")})
    with pytest.raises(Exception, match=r"weights_only|WeightsUnpickler|Unsupported"):
        checkpoints.load(tmp_path)
