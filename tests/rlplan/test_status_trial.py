"""`rlplan status TRIAL`: one trial with everything about it, and what a name stands for."""

from pathlib import Path

import pytest

from planner.store import open_store, sweeps
from planner.store.schema import SegmentOutcome, SweepStatus
from planner.view import TrialState
from rlplan.commands.trial import TrialName, trial_named
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at
from tests.rlplan.conftest import Run
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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n512-B32-s0", TrialName("n512-B32-s0", "sweep-1")),
        ("n16-B128-s0", TrialName("n16-B128-s0", "sweep-2", ("sweep-1",))),
        ("sweep-1/n16-B128-s0", TrialName("n16-B128-s0", "sweep-1")),
        ("N512", TrialName("n512-B32-s0", "sweep-1")),
        ("sweep-1/n8", TrialName("n8-B32-s0", "sweep-1")),
    ],
)
def test_what_a_name_stands_for(database: str, text: str, found: TrialName) -> None:
    with open_store(database, read_only=True) as store, store.read() as session:
        assert trial_named(session, text) == found


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("n512-B31-s0",), 3, "there is no trial 'n512-B31-s0': did you mean 'n512-B32-s0'"),
        (("xyzzy",), 3, "there is no sweep 'xyzzy'; there are: sweep-1, sweep-2"),
        (("sweep-1/xyzzy",), 3, "there is no trial 'xyzzy' in sweep-1: `rlplan status sweep-1` lists"),
        (("n8",), 3, "'n8' begins the names of several trials of sweep-2: n8-B128-s0, n8-B64-s0"),
        (("sweep-9/n8",), 3, "there is no sweep 'sweep-9'"),
        (("n512", "--top", "2"), 2, "n512-B32-s0 is a trial: --watch, --status, --sort"),
    ],
)
def test_an_unknown_name_gets_the_near_ones(
    run: Run, database: str, args: tuple[str, ...], code: int, said: str
) -> None:
    ran = run("status", *args)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_trial_is_told_on_one_screen(run: Run, database: str) -> None:
    out = run("status", "n512-B32-s0").out
    for said in (
        "n512-B32-s0 of sweep-1, plan-1: paused at step 30/40",
        "n = 512, B = 32, recipe grpo, learning rate 1e-6, seed 0; qwen3-8b",
        "4  30–40      30.0     7.00  lost       w1",
        "lost     its worker is gone",
    ):
        assert said in out
    flat = " ".join(out.split())
    assert "Score 0.620 ± 0.011 (mean@1) at 90 GPU-hours. Expected at 3,997 GPU-hours: 0.74 (0.68–0.79)" in flat
    assert "P(best) 0.62. It has taken 94 GPU-hours." in flat
    assert out.count("\n") <= 24
    failed = run("status", "n1024").out
    assert "failed (out-of-memory)" in failed
    assert "torch.OutOfMemoryError: 81 GiB wanted" in failed
    assert failed.count("\n") <= 24
    ran = run("status", "n16-B128-s0")
    assert ran.out.startswith("n16-B128-s0 of sweep-2")
    assert ran.err == "n16-B128-s0 is of sweep-2; there is sweep-1/n16-B128-s0 too\n"


def test_a_trial_as_data(run: Run, database: str) -> None:
    found = run.json("status", "n512-B32-s0")
    assert (found["kind"], found["sweep"], found["state"], found["recipe"]) == ("trial", "sweep-1", "paused", "grpo")
    assert [each["outcome"] for each in found["segments"]] == ["committed", "committed", "committed", "lost"]
    assert sum(each["charged_gpu_hours"] for each in found["segments"]) == found["gpu_hours_spent"] == 94.0
    assert [each["to_state"] for each in found["transitions"]][-3:] == ["running", "lost", "paused"]
    assert found["transitions"][0]["from_state"] is None
    assert [each["action"] for each in found["decisions"]] == ["start", "continue", "continue", "continue"]
    assert len(found["points"]) == 16
    assert found["config"] == {"kl": 0.0}
    rows = run("status", "n512-B32-s0", "--format", "csv").rows
    assert [float(row["score"]) for row in rows] == [each["score"] for each in found["points"]]


def test_a_plain_terminal_gets_plain_signs(process: Run, database: str) -> None:
    ran = process("status", "n512", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.isascii()
    assert "?" not in ran.out
    assert "Segments" in ran.out
    assert "\x1b[" not in ran.out
