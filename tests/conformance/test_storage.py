"""What any place for saves promises: in memory, in a folder by its URL, and on a real S3 server."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from budgets.errors import CheckpointError
from runner.storage.mirror import SHARED, Mirror
from runner.storage.place import Place
from tests.bucket import s3_server
from tests.runner.trainers.standins import standin_config


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


def mirror(place: Place, folder: Path) -> Mirror:
    return Mirror(f"{place.url}/n8-B4-s0", folder, standin_config())


def store(place: Place, folder: Path, segment: int, step: int) -> Mirror:
    """Store a trial's folder as it is at a step."""
    checkpoint = folder / "trainer" / f"checkpoint-{step}"
    (checkpoint / "shards").mkdir(parents=True)
    (checkpoint / "shards" / "weights.bin").write_bytes(bytes([step]) * 2_000_000)
    (checkpoint / "empty").touch()
    (folder / "trainer" / "trial.json").touch()
    (folder / "metrics.jsonl").write_text(f'{{"step": {step}}}\n')
    (folder / "worker.log").write_text("nobody else's")
    copy = mirror(place, folder)
    assert copy.store(segment) == (f"{place.url}/n8-B4-s0/{segment:08d}-{step:08d}", [])
    return copy


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
    place.remove(["a/b.json", "c.json"])
    place.remove(["c.json"])
    assert place.names() == {}


def test_a_save_comes_back_on_another_machine_as_it_was(place: Place, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    store(place, here, 3, 7)
    (there / "trainer" / "checkpoint-7").mkdir(parents=True)
    (there / "trainer" / "checkpoint-7" / "torn").touch()
    assert mirror(place, there).fetch(7) == []
    whole = contents(here)
    del whole["worker.log"]
    assert contents(there) == whole


def test_two_saves_stay_and_what_a_dead_worker_left_goes(place: Place, tmp_path: Path) -> None:
    own = Place(f"{place.url}/n8-B4-s0")
    own.write("00000001-00000009/weights.bin", b"no mark was ever written")
    assert mirror(place, tmp_path).saves() == []
    for segment in range(2, 5):
        copy = store(place, tmp_path / str(segment), segment, 10 * segment)
    assert [save.name for save in copy.saves()] == ["00000004-00000040", "00000003-00000030"]
    assert {name[:17] for name in own.names()} == {"00000003-00000030", "00000004-00000040"}


def test_a_later_segment_counts_more_than_a_farther_one(place: Place, tmp_path: Path) -> None:
    """A worker that was given up may go on for a while, and store more than its successor."""
    store(place, tmp_path / "b", 8, 25)
    copy = store(place, tmp_path / "a", 7, 90)
    assert [int(save.name[:8]) for save in copy.saves()] == [8, 7]
    store(place, tmp_path / "c", 9, 30)
    assert [int(save.name[:8]) for save in copy.saves()] == [9, 8]


def test_a_save_that_is_not_whole_leaves_the_folder_alone(place: Place, tmp_path: Path) -> None:
    there = tmp_path / "there"
    store(place, tmp_path / "here", 2, 5)
    store(Place(f"{place.url}/other"), there, 1, 2)
    before = contents(there)
    own = Place(f"{place.url}/n8-B4-s0")
    own.write("00000002-00000005/metrics.jsonl", b"less")
    own.write("00000009-00000009.json", b"{torn")
    (note,) = mirror(place, there).fetch(2)
    assert "00000002-00000005/metrics.jsonl is damaged" in note
    own.remove(["00000002-00000005/metrics.jsonl"])
    (note,) = mirror(place, there).fetch(2)
    assert "cannot be read" in note
    assert contents(there) == before
    assert (there / SHARED).read_text() == "00000001-00000002"
