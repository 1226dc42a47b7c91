"""A trial goes on on another machine as if it had never left the first; each machine is a folder of its own."""

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budgets.errors import InputError
from planner.disk import DISK_IS_FULL
from runner.ports.backend import Point, never
from runner.ports.executor import Ended, Event, Failed, Progress, Work
from runner.ports.trial import TrialConfig
from runner.storage.mirror import SHARED, Mirror
from runner.storage.place import Place
from runner.sweep.recovery import remove_saved
from runner.sweep.worker import Worker
from runner.trainers.catalogue import checkpoints_of
from tests.bucket import forget_clients, s3_server
from tests.conformance.works import Works
from tests.runner.tiny import tiny_config
from tests.runner.trainers.standins import standin_config


class Machines:
    """Workers on machines that share nothing but the storage."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"file://{folder}/stored/trial-1"
        self.points: list[Point] = []
        self._works = Works(folder)
        self._config: dict[str, Any] | None = None

    def training(self, config: TrialConfig) -> "Machines":
        """Have its trial be another than a simulated one."""
        self._config = config.model_dump(mode="json")
        return self

    def run(self, machine: str, from_step: int, to_step: int, storage: str | None = "") -> Ended | Failed:
        """Run a segment in a new worker, which forgets the trial afterwards."""
        events: list[Event] = []
        work = self._works(1, to_step, from_step, folder=str(self.at(machine)), storage=self.url)
        work = work if storage == "" else replace(work, storage=storage)
        work = work if self._config is None else replace(work, config=self._config)
        self.at(machine).parent.mkdir(parents=True, exist_ok=True)  # of the sweep, which its driver makes
        worker = Worker("w", lambda: 0.0, events.append)
        try:
            worker.run(work, never)
        finally:
            worker.close()
        self.points += [point for event in events if isinstance(event, Progress) for point in event.points]
        assert isinstance(events[-1], Ended | Failed)
        return events[-1]

    def at(self, machine: str) -> Path:
        return self.folder / machine / "trial-1"

    def scores(self) -> list[tuple[int, float | None]]:
        return [(point.optimizer_step, point.score) for point in self.points]

    def stored(self) -> list[int]:
        copy = Mirror(self.url, self.folder, Works(self.folder).config(1))
        return [int(save.name[-8:]) for save in copy.saves()]


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


@pytest.fixture(params=["simulated", "driven", "builtin"])
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Machines]:
    def named(name: str) -> Machines:
        found = Machines(tmp_path / name)
        if request.param == "driven":
            return found.training(standin_config(save_every_steps=1, checkpoint_bytes=2000))
        if request.param == "builtin":
            request.getfixturevalue("tiny_trials")
            return found.training(tiny_config())
        return found

    return named


def test_a_trial_moves_between_machines_and_makes_the_same_points(each: Callable[[str], Machines]) -> None:
    moved, stayed = each("moved"), each("stayed")
    for machine, start in (("a", 0), ("b", 3), ("a", 6), ("b", 9)):  # each comes back to an older state of its own
        ended = moved.run(machine, start, start + 3)
        assert isinstance(ended, Ended)
        assert ended.checkpoint.startswith(moved.url)
        assert ended.notes == ()
        assert isinstance(stayed.run("here", start, start + 3, storage=None), Ended)
    assert moved.scores() == stayed.scores()
    assert moved.stored() == [12, 9]
    shutil.rmtree(moved.folder / "b")
    assert isinstance(moved.run("b", 12, 13), Ended)
    assert [step for step, _ in moved.scores()] == list(range(14))


def test_what_a_machine_has_beyond_its_last_copy_is_gone_on_from(machines: Machines) -> None:
    machines.run("a", 0, 3)
    machines.run("a", 3, 6, storage=None)  # its copy was never written
    shared = (machines.at("a") / SHARED).read_text()
    ended = machines.run("a", 3, 6)
    assert isinstance(ended, Ended)
    assert ended.step == 6
    assert machines.stored() == [6, 3]
    assert (machines.at("a") / SHARED).read_text() != shared


def test_a_course_that_was_given_up_is_not_gone_on_from(machines: Machines) -> None:
    machines.run("a", 0, 3)
    machines.run("a", 3, 8, storage=None)  # lost: nobody heard of it, and b took its place
    machines.run("b", 3, 5)
    machines.points.clear()
    assert isinstance(machines.run("a", 5, 7), Ended)
    assert [step for step, _ in machines.scores()] == [6, 7]
    config = Works(machines.folder).config(1)
    assert [step for step, _ in checkpoints_of(config, machines.at("a"))] == [7, 5]


def test_a_damaged_save_is_passed_over_for_the_one_before(machines: Machines) -> None:
    machines.run("a", 0, 3)
    machines.run("a", 3, 6)
    place = Place(machines.url)
    place.write(max(name for name in place.names() if "/checkpoint-" in name), b"something else")
    ended = machines.run("b", 6, 9)
    assert isinstance(ended, Ended)
    assert ended.step == 9
    assert "is damaged" in ended.notes[1]
    assert ended.notes[0] == "goes on from step 3 instead of 6: no newer checkpoint is sound"


def test_a_copy_that_finds_no_room_is_said_to_find_none(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    machines.run("a", 0, 3)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=10**9, free=100))
    failed = machines.run("b", 3, 6)
    assert isinstance(failed, Failed)
    assert (failed.kind, DISK_IS_FULL in failed.message) == ("checkpoint", True)
    assert not list(machines.at("b").rglob("checkpoint-*"))


def test_storage_that_is_away_does_not_end_a_trial_that_has_what_it_needs(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise TimeoutError("no answer")

    machines.run("a", 0, 3)
    with monkeypatch.context() as patch:
        patch.setattr("fsspec.implementations.local.LocalFileSystem.find", away)
        patch.setattr("fsspec.implementations.local.LocalFileSystem.put_file", away)
        ended = machines.run("a", 3, 6)
        assert isinstance(ended, Ended)
        assert ended.step == 6
        assert ended.notes[0].startswith("goes on from what this machine has: the storage")
        assert ended.notes[1].startswith("step 6 is saved on this machine alone: the storage")
        failed = machines.run("b", 6, 9)
        assert isinstance(failed, Failed)
        assert failed.kind == "checkpoint"
    ended = machines.run("b", 6, 9)  # and does over what it never got
    assert isinstance(ended, Ended)
    assert ended.notes == ("goes on from step 3 instead of 6: no newer checkpoint is sound",)


def test_of_a_pruned_trial_nothing_is_kept_anywhere(each: Callable[[str], Machines]) -> None:
    machines = each("one")
    machines.run("a", 0, 3)
    work: Work = Works(machines.folder)(1)
    config = machines._config or work.config
    remove_saved(machines.at("a"), config, machines.url)
    assert Place(machines.url).names() == {}
    assert not list(machines.at("a").rglob("checkpoint-*"))
    remove_saved(machines.at("a"), config, "xyz://nowhere")  # storage that nobody can open is left


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3_server() as url:
        yield url


def refusal(url: str) -> str:
    with pytest.raises(InputError) as refused:
        Place(url).require_usable()
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/shared/sweeps", "is no URL: give one such as s3://bucket/path"),
        ("floppy://a", "Protocol not known: floppy"),
        ("memory://sweeps", "ends with the process that writes to it"),
        ("s3://me:secret@bucket/path", "leave that to the environment"),
        ("abfs://box/path?sv=2024&sig=secret", "leave that to the environment"),
        ("s3://bucket/path?aws_secret_access_key=secret", "leave that to the environment"),
        ("file:///proc/nowhere", "file:///proc/nowhere cannot be written"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(url: str, said: str) -> None:
    refused = refusal(url)
    assert said in refused
    assert "secret" not in refused


def test_a_bucket_that_is_not_there_is_said_to_be_missing(bucket: str) -> None:
    Place(f"{bucket}/path").require_usable()
    assert Place(f"{bucket}/path").names() == {}
    assert "there is no such bucket" in refusal("s3://nowhere/path")


def test_credentials_are_asked_for(bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_clients()  # which were given some
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "was asked without credentials" in refusal(f"{bucket}/path")
    forget_clients()


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = importlib.import_module("fsspec.registry")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(registry._registry, "s3", raising=False)
    assert "needs s3fs (pip install 'rlplan[s3]')" in refusal("s3://bucket/path")
