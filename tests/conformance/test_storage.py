"""What any place for saves promises: in memory, in a folder by its URL, and on a real S3 server."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from budgets.errors import CheckpointError
from runner.storage.place import Place
from runner.storage.saves import Saves
from tests.bucket import s3_server


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture(params=["memory", "file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    own = uuid.uuid4().hex
    if request.param == "s3":
        return Place(f"{request.getfixturevalue('bucket')}/{own}")
    return Place(f"memory://{own}" if request.param == "memory" else f"file://{tmp_path}/stored")


@pytest.fixture
def saves(place: Place) -> Saves:
    return Saves(Place(f"{place.url}/n8-B4-s0"))


def trial(folder: Path, step: int) -> list[Path]:
    """Make a trial's folder as it is at a step, and return what is to be saved of it."""
    checkpoint, points = folder / "trainer" / f"checkpoint-{step}", folder / "metrics.jsonl"
    (checkpoint / "shards").mkdir(parents=True)
    (checkpoint / "shards" / "weights.bin").write_bytes(bytes([step]) * 2_000_000)
    (checkpoint / "empty").touch()
    points.write_text(f'{{"step": {step}}}\n')
    (folder / "worker.log").write_text("nobody else's")
    return [checkpoint, points]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_come_back_and_go(place: Place) -> None:
    assert place.names() == {}
    place.write("a/b.json", b"whole")
    place.write("c.json", b"")
    assert place.names() == {"a/b.json": 5, "c.json": 0}
    assert place.read("a/b.json") == b"whole"
    with pytest.raises(CheckpointError, match="cannot be read"):
        place.read("gone.json")
    place.remove("a/b.json", "c.json")
    place.remove("c.json")
    assert place.names() == {}


def test_a_save_comes_back_on_another_machine_as_it_was(saves: Saves, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    saves.put(3, 7, here, trial(here, 7))
    (there / "trainer" / "checkpoint-7").mkdir(parents=True)
    (there / "trainer" / "checkpoint-7" / "torn").touch()
    (newest,) = saves.marked()
    assert (newest.segment, newest.step) == (3, 7)
    saves.fetch(newest, there, lambda: None)
    whole = contents(here)
    del whole["worker.log"]
    assert contents(there) == whole


def test_two_saves_stay_and_what_a_dead_worker_left_goes(saves: Saves, tmp_path: Path) -> None:
    saves.place.write("00000001-00000009/weights.bin", b"no mark was ever written")
    assert list(saves.marked()) == []
    for segment in range(2, 5):
        saves.put(segment, 10 * segment, tmp_path / str(segment), trial(tmp_path / str(segment), segment))
    assert [save.name for save in saves.marked()] == ["00000004-00000040", "00000003-00000030"]
    assert {name[:17] for name in saves.place.names()} == {"00000003-00000030", "00000004-00000040"}
    saves.place.clear()
    assert saves.place.names() == {}


def test_a_later_segment_counts_more_than_a_farther_one(saves: Saves, tmp_path: Path) -> None:
    """A worker that was given up may go on for a while, and store more than its successor."""
    saves.put(8, 25, tmp_path / "b", trial(tmp_path / "b", 25))
    saves.put(7, 90, tmp_path / "a", trial(tmp_path / "a", 90))
    assert [save.segment for save in saves.marked()] == [8, 7]
    saves.put(9, 30, tmp_path / "c", trial(tmp_path / "c", 30))
    assert [save.segment for save in saves.marked()] == [9, 8]


def test_a_damaged_save_is_refused_and_leaves_the_folder_alone(saves: Saves, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    save = saves.put(1, 5, here, trial(here, 5))
    saves.place.write(f"{save.name}/metrics.jsonl", b'{"step": 6}\n')  # as many bytes
    trial(there, 2)
    before = contents(there)
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is damaged"):
        saves.fetch(save, there, lambda: pytest.fail("nothing is to be removed"))
    assert contents(there) == before
    saves.place.write("00000009-00000009.json", b"{torn")
    assert [each.name for each in saves.marked()] == [save.name]
