"""A rehearsal says what would fail before anything is spent; simulated workers instead of Ray."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import CheckpointError
from planner.store.schema import Sweep
from rlplan.actions import rehearsal as rehearsing
from rlplan.actions.machine import Finding, Health, rehearsal
from rlplan.exits import ExitCode
from rlplan.requests.run import LaunchRequest, SweepRequest
from rlplan.wording.command_lines import Format
from rlplan.wording.screen import Invocation
from runner.ports.trial import TrialConfig
from runner.rehearsal import node_files
from runner.rehearsal.node_files import try_folder
from runner.rehearsal.trials import RehearsalOutcome
from runner.sweep.tune.cluster import Node
from runner.sweep.tune.placement import ClusterResources
from tests.rlplan.stored_rows import rows
from tests.simulated.executor import SimulatedExecutor

OWN = Path(__file__).parents[1] / "runner" / "trainers" / "own"


class Simulated(SimulatedExecutor):
    """Takes what the executor on Ray takes, and has half the workers."""

    def __init__(self, folder: Path, workers: int, tag: str, address: str | None, *need: float) -> None:
        super().__init__(max(1, workers // 2), gpus_per_worker=64.0)


@pytest.fixture(autouse=True)
def on_simulated_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rehearsing, "RayExecutor", Simulated)
    monkeypatch.setattr(node_files, "MEBIBYTES", 1)


def rehearsed(database: Path, **asked: Any) -> dict[str, Finding]:
    request = SweepRequest(
        **({"task": "sum-easy", "budget": 0.5, "explore": True, "workers": 2, "db": database} | asked)
    )
    return {each.what: each for each in rehearsing.rehearse(request)}


def test_a_sweep_that_fits_is_said_to_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    database = tmp_path / "rlplan.db"
    found = rehearsed(database)
    assert {name: each.health for name, each in found.items()} == {
        "plan": Health.OK,
        "trainer": Health.OK,
        "storage": found["storage"].health,  # this machine's disk may be slow
        "stand-in": Health.OK,
        "sweep": Health.MIND,
    }
    assert found["storage"].health is not Health.BAD
    assert "1 trial at once" in found["sweep"].found
    assert list(tmp_path.iterdir()) == []


def test_what_would_fail_is_said_and_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Refusing:
        def rehearse(self, config: TrialConfig) -> list[str]:
            return ["unrecognized arguments: --rollouts"] if config.rollouts_per_prompt > 8 else []

        def check(self, config: TrialConfig) -> None:
            """Accept it."""

    monkeypatch.setattr(rehearsing, "driver_of", lambda config: Refusing())
    found = rehearsed(tmp_path / "rlplan.db", trainer="standin")
    assert found["trainer"].health is Health.BAD
    assert found["trainer"].why.startswith("unrecognized arguments: --rollouts (n16-")
    assert rehearsal(found.values()).emit(Format.TABLE, Invocation(())) == ExitCode.BAD_INPUT
    said = capsys.readouterr()
    assert "It would fail: mend what is marked bad first." in said.out
    assert said.err == ""  # no terminal: it is said once


def test_trials_that_fail_or_never_begin_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __init__(self, *_: Any) -> None:
            """Take what it is given."""

        def play(self, seconds: float) -> RehearsalOutcome:
            return RehearsalOutcome([], {"n8-B64-s0": "out-of-memory: CUDA out of memory"}, ["n16-B32-s0"])

    monkeypatch.setattr(rehearsing, "RehearsalRun", Failing)
    request = SweepRequest(task="sum-easy", budget=0.5, db=str(tmp_path / "rlplan.db"))
    said = [each for each in rehearsing.rehearse(request) if each.health is Health.BAD]
    assert [(each.found, each.why) for each in said] == [
        ("n8-B64-s0", "out-of-memory: CUDA out of memory"),
        ("1 trial", "not through within the minute: n16-B32-s0"),
    ]


LARGE = {"budget": 5000.0, "explore": True, "pilot_fraction": 0.15, "pilot_gpus": 8, "trainer": "standin", "workers": 8}


@pytest.mark.parametrize(
    ("most", "health", "said"),
    [(64.0, Health.OK, "64 h100 on 8 nodes: placed"), (8.0, Health.BAD, "64 h100 on 8 nodes")],
)
def test_the_final_runs_layout_is_placed_on_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: float, health: Health, said: str
) -> None:
    class Cluster(SimulatedExecutor):
        def __init__(self, *_: Any) -> None:
            super().__init__(8, gpus_per_worker=most)

        def resources(self) -> ClusterResources:
            return ClusterResources([Node(str(number), "here", 8.0, 8.0, 8.0, 8.0) for number in range(8)])

    monkeypatch.setattr(rehearsing, "RayExecutor", Cluster)
    monkeypatch.setattr(rehearsing, "try_folder", lambda folder, address: try_folder(folder, None))
    (tmp_path / "rlplan.toml").write_text("[hardware]\ngpus_per_trial = 64\n")
    request = SweepRequest(**(LARGE | {"ray_address": "somewhere:6379", "db": str(tmp_path / "rlplan.db")}))
    played = rehearsing.rehearse(request, seconds=10_000)
    found = {each.what: each for each in played}
    assert found["stand-in"].health is Health.OK
    assert (found["final run"].health, found["final run"].found) == (health, said)
    assert "asks for 64 GPUs" in found["final run"].why or health is Health.OK


def test_a_folder_that_not_every_machine_reaches_is_found_out(tmp_path: Path) -> None:
    [alone] = try_folder(tmp_path, None)
    assert alone.error == ""
    assert alone.written_per_second is not None
    [missing] = try_folder(tmp_path / "absent", None)
    assert "cannot write there: No such file or directory" in missing.error
    wrote = node_files._written(str(tmp_path), "one", 1)
    assert node_files._read(str(tmp_path), "one", wrote["digest"])["error"] == ""
    (tmp_path / "one").write_bytes(b"another machine's folder")
    assert "is the folder shared?" in node_files._read(str(tmp_path), "one", wrote["digest"])["error"]
    assert "is the folder shared?" in node_files._read(str(tmp_path), "two", wrote["digest"])["error"]


def test_a_url_is_written_read_and_timed_on_machines_that_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{tmp_path}/copies"
    storage = rehearsed(tmp_path / "rlplan.db", storage=url)["storage"]
    assert storage.health is not Health.BAD
    assert re.search(rf"writes and reads in {url}, [\d,]+ MB/s written and [\d,]+ MB/s read", storage.found)
    assert not [path for path in (tmp_path / "copies").rglob("*") if path.is_file()]

    def refused(*_: Any) -> None:
        raise CheckpointError("the storage cannot be written: it refuses these credentials")

    monkeypatch.setattr("runner.storage.place.Place.put", refused)
    findings = rehearsed(tmp_path / "rlplan.db", storage=url)
    assert findings["storage"].health is Health.BAD
    assert "refuses these credentials" in findings["storage"].why
    assert "stand-in" not in findings


def test_a_final_run_is_rehearsed_on_its_own_layout_and_nothing_is_stored(swept: str, tmp_path: Path) -> None:
    before = sorted(path.name for path in tmp_path.rglob("*") if path.is_dir())
    found = {each.what: each for each in rehearsing.rehearse_final(LaunchRequest(db=swept))}

    assert set(found) == {"final run", "trainer", "storage", "stand-in"}
    assert {each.health for name, each in found.items() if name != "storage"} == {Health.OK}
    assert re.fullmatch(r"n = \d+, B = \d+, [\d,]+ updates on .*", found["final run"].found)
    assert found["stand-in"].found.startswith("1 trial trained, scored and saved")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_dir()) == before
    assert len(rows(swept, Sweep)) == 1


@pytest.mark.parametrize(
    ("mode", "changes", "health", "said"),
    [
        ("plain", {}, Health.OK, r"one step in \d+ s, score 0\.3\d\d, saved as checkpoint-1\.pt"),
        ("unscored", {}, Health.BAD, "the columns are step, loss, reward, acc"),
        ("percent", {}, Health.BAD, r"reward_range = \[0, 100\]"),
        ("plain", {"checkpoint-{step}.pt": "ckpt-{step}"}, Health.BAD, "no checkpoint by the pattern 'ckpt-{step}'"),
    ],
)
def test_the_command_of_a_trainer_of_ones_own_takes_a_step(
    mode: str, changes: dict[str, str], health: Health, said: str, tmp_path: Path
) -> None:
    shutil.copy(OWN / "train.py", tmp_path)
    text = (OWN / "trainer.toml").read_text(encoding="utf-8").replace("--mode plain", f"--mode {mode}")
    for old, new in changes.items():
        text = text.replace(old, new)
    (tmp_path / "trainer.toml").write_text(text, encoding="utf-8")
    found = rehearsed(tmp_path / "rlplan.db", trainer=str(tmp_path / "trainer.toml"))
    assert found["command"].health is health
    assert re.search(said, f"{found['command'].found} {found['command'].why}")
