"""`rlplan show`: one trial with everything about it, one sweep, one plan; and what a name stands for."""

from pathlib import Path
from typing import Any

import pytest

from planner.store import open_store, sweeps
from planner.store.schema import SegmentOutcome, SweepStatus
from planner.trials import TrialState
from rlplan.reading.show_reading import Kind, Named, named
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at
from tests.rlplan.conftest import Run
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import SETTINGS, seeded


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A sweep in the middle of its life, a later one with trials of the same names, and a plan not run."""
    seeder = seeded(tmp_path / "rlplan.db")
    seeder.recommend()
    seeder.settle(1, SegmentOutcome.LOST, 7.0)
    seeder.move(1, TrialState.LOST, "its worker is gone")
    seeder.move(1, TrialState.PAUSED, "it goes on from its checkpoint")
    seeder.end(SweepStatus.INTERRUPTED)
    with seeder.store as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
        later = samples.put(store, sweeps.create_sweep, "plan-1", samples.sweep(config=SETTINGS), at(500))
        for n, B in ((16, 128), (8, 64), (8, 128)):
            samples.put(store, sweeps.add_trial, later, samples.trial(n, B, 0), at(501))
    return str(tmp_path / "rlplan.db")


def document(run: Run, *args: str) -> Any:
    ran = run("show", *args, "--format", "json")
    assert ran.code == 0, ran.err
    return ran.json


@pytest.mark.parametrize(
    ("name", "sweep", "found"),
    [
        (None, None, Named(Kind.SWEEP, "sweep-2")),
        (None, "sweep-1", Named(Kind.SWEEP, "sweep-1")),
        ("plan-2", None, Named(Kind.PLAN, "plan-2")),
        ("n512-B32-s0", None, Named(Kind.TRIAL, "n512-B32-s0", "sweep-1")),
        ("n16-B128-s0", None, Named(Kind.TRIAL, "n16-B128-s0", "sweep-2", ("sweep-1",))),
        ("n16-B128-s0", "sweep-1", Named(Kind.TRIAL, "n16-B128-s0", "sweep-1")),
        ("N512", None, Named(Kind.TRIAL, "n512-B32-s0", "sweep-1")),
        ("n8", "sweep-1", Named(Kind.TRIAL, "n8-B32-s0", "sweep-1")),
    ],
)
def test_what_a_name_stands_for(database: str, name: str | None, sweep: str | None, found: Named) -> None:
    with open_store(database, read_only=True) as store, store.read() as session:
        assert named(session, name, sweep) == found


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("n512-B31-s0",), "there is no trial, sweep or plan 'n512-B31-s0': did you mean 'n512-B32-s0'"),
        (("sweep-3",), "did you mean 'sweep-2' or 'sweep-1'"),
        (("xyzzy",), "`rlplan status --all` all sweeps and plans"),
        (("xyzzy", "--sweep", "sweep-1"), "there is no trial 'xyzzy' in sweep-1: `rlplan status sweep-1` lists"),
        (("n8",), "'n8' begins the names of several trials of sweep-2: n8-B128-s0, n8-B64-s0"),
        (("n8", "--sweep", "sweep-9"), "there is no sweep 'sweep-9'"),
    ],
)
def test_an_unknown_name_gets_the_near_ones(run: Run, database: str, args: tuple[str, ...], said: str) -> None:
    ran = run("show", *args)
    assert (ran.code, ran.out) == (3, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_trial_is_told_from_its_plan_to_its_end(run: Run, database: str) -> None:
    out = run("show", "n512-B32-s0").out
    for said in (
        "n512-B32-s0 of sweep-1, plan-1: paused at step 30/40",
        "n = 512, B = 32, recipe grpo, learning rate 1e-06, seed 0; qwen3-8b",
        "Scores, the last 6 of 16",
        "4  30–40      30.0     7.00  lost       w1",
        "lost     its worker is gone",
        "To train it on",
    ):
        assert said in out
    assert "0.24 │" in out
    assert (
        "Score 0.620 ± 0.011 (mean@1) at 90 GPU-hours. At 3,997 a new run of its configuration is expected to score "
        "0.74 (0.68–0.79), 90 % interval, P(best) 0.62 (answered 2026-03-01 "
    ) in " ".join(out.split())
    assert "Its curve up to 30: rising." in " ".join(out.split())
    failed = run("show", "n1024").out
    assert "What its log says last (out-of-memory)" in failed
    assert "torch.OutOfMemoryError: 81 GiB wanted" in failed
    ran = run("show", "n16-B128-s0")
    assert ran.out.startswith("n16-B128-s0 of sweep-2")
    assert ran.err == "n16-B128-s0 is of sweep-2; --sweep shows that of sweep-1\n"


@pytest.mark.parametrize("name", ["n512", "n1024", "sweep-1", "plan-1"])
def test_it_fits_whatever_it_is_drawn_on(run: Run, database: str, name: str) -> None:
    for width in (40, 200):
        assert max(map(len, run("show", name, width=width).out.splitlines())) <= width


def test_a_trial_as_data(run: Run, database: str) -> None:
    found = document(run, "n512-B32-s0")
    assert (found["kind"], found["sweep"], found["state"], found["recipe"]) == ("trial", "sweep-1", "paused", "grpo")
    assert [each["outcome"] for each in found["segments"]] == ["committed", "committed", "committed", "lost"]
    assert sum(each["charged_gpu_hours"] for each in found["segments"]) == found["gpu_hours_spent"] == 94.0
    assert [each["to_state"] for each in found["transitions"]][-3:] == ["running", "lost", "paused"]
    assert found["transitions"][0]["from_state"] is None
    assert [each["action"] for each in found["decisions"]] == ["start", "continue", "continue", "continue"]
    assert len(found["points"]) == 16
    assert found["config"] == {"kl": 0.0}
    assert found["train_on"]["arguments"] is None
    assert "are none that this version of rlplan can read" in found["train_on"]["note"]
    rows = run("show", "n512-B32-s0", "--format", "csv").rows
    assert [float(row["score"]) for row in rows] == [each["score"] for each in found["points"]]


def test_the_command_goes_on_from_the_checkpoint_of_the_trial(run: Run, tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db", saved=True)
    found = document(run, "n2-B64")
    arguments = found["train_on"]["arguments"]
    assert arguments[:4] == ["rlplan", "train", "--task", "sum-easy"]
    assert arguments[arguments.index("--from-pilot") + 1] == str(tmp_path / "trials" / "n2-B64-s0")
    assert (arguments[arguments.index("-n") + 1], arguments[arguments.index("-B") + 1]) == ("2", "64")
    assert f"it goes on from step {found['step']:,} of" in found["train_on"]["note"]
    out = run("show", "n2-B64").out
    command = out[out.index("rlplan train") :].split("\nIt goes on")[0]
    assert command.replace(" \\\n   ", "").split() == arguments
    ended(tmp_path / "rlplan.db", real=False)
    assert document(run, "n2-B64")["train_on"] == {
        "arguments": None,
        "note": "the sweep is of a simulated world: there is nothing to train",
    }


def test_a_sweep_as_a_whole(run: Run, database: str) -> None:
    out = run("show", "sweep-1").out
    assert out.startswith("sweep-1 of plan-1: qwen3-8b, policy rlplan, interrupted\nstopped after ")
    assert "7 trials (1 planned, 1 running, 2 paused, 2 pruned, 1 failed)" in " ".join(out.split())
    assert "Recommended for the remaining 3,997 GPU-hours: n = 512" in out
    assert f"`rlplan rank sweep-1 --db {database}`" in run("show", "sweep-1", "--db", database, width=200).out
    found = document(run, "sweep-1")
    assert (found["kind"], found["config"]["target_gpu_hours"], len(found["trials"])) == ("sweep", 4000.0, 7)
    assert len(run("show", "sweep-1", "--format", "csv").out.splitlines()) == 8


def test_a_plan_as_a_whole(run: Run, database: str) -> None:
    assert "Run by sweep-1, sweep-2; `rlplan show sweep-2` shows it." in run("show", "plan-1").out
    out = run("show", "plan-2").out
    assert out.startswith(
        "plan-2: 5,000 GPU-hours for qwen3-8b on 64 h100, hard problems, recipe grpo\n1,000 GPU-hours"
    )
    assert "tokens/s  2000.0 (measured)\n" in out
    assert out.endswith("No sweep has run it yet: `rlplan sweep plan-2`.\n")
    found = document(run, "plan-2")
    assert (found["kind"], found["plan"], found["sweeps"]) == ("plan", "plan-2", [])
    assert [each["rank"] for each in found["candidates"]] == [1, 2]
    assert len(run("show", "plan-2", "--format", "csv").out.splitlines()) == 3


def test_a_plain_terminal_gets_plain_signs(process: Run, database: str) -> None:
    ran = process("show", "n512", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.isascii()
    assert "?" not in ran.out
    assert "*****" in ran.out
    assert "\x1b[" not in ran.out
