"""`rlplan show`: one trial with everything about it, and what a name stands for."""

from pathlib import Path

import pytest

from planner.store import open_store, sweeps
from planner.store.schema import SegmentOutcome, SweepStatus
from planner.trials import TrialState
from rlplan.reading.show_reading import Named, named
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
    ("name", "sweep", "found"),
    [
        ("n512-B32-s0", None, Named("n512-B32-s0", "sweep-1")),
        ("n16-B128-s0", None, Named("n16-B128-s0", "sweep-2", ("sweep-1",))),
        ("n16-B128-s0", "sweep-1", Named("n16-B128-s0", "sweep-1")),
        ("N512", None, Named("n512-B32-s0", "sweep-1")),
        ("n8", "sweep-1", Named("n8-B32-s0", "sweep-1")),
    ],
)
def test_what_a_name_stands_for(database: str, name: str, sweep: str | None, found: Named) -> None:
    with open_store(database, read_only=True) as store, store.read() as session:
        assert named(session, name, sweep) == found


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("n512-B31-s0",), "there is no trial 'n512-B31-s0': did you mean 'n512-B32-s0'"),
        (("sweep-2",), "there is no trial 'sweep-2': `rlplan status` lists the trials of a sweep"),
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
        "n = 512, B = 32, recipe grpo, learning rate 1e-6, seed 0; qwen3-8b",
        "Scores, the last 6 of 16",
        "4  30–40      30.0     7.00  lost       w1",
        "lost     its worker is gone",
    ):
        assert said in out
    assert "0.24 │" in out
    assert (
        "Score 0.620 ± 0.011 (mean@1) at 90 GPU-hours. At 3,997 its configuration is expected to score "
        "0.74 (0.68–0.79), 90 % interval, P(best) 0.62 (answered 2026-03-01 "
    ) in " ".join(out.split())
    assert "Its curve up to 30: rising." in " ".join(out.split())
    failed = run("show", "n1024").out
    assert "What its log says last (out-of-memory)" in failed
    assert "torch.OutOfMemoryError: 81 GiB wanted" in failed
    ran = run("show", "n16-B128-s0")
    assert ran.out.startswith("n16-B128-s0 of sweep-2")
    assert ran.err == "n16-B128-s0 is of sweep-2; --sweep shows that of sweep-1\n"


def test_a_trial_as_data(run: Run, database: str) -> None:
    found = run.json("show", "n512-B32-s0")
    assert (found["kind"], found["sweep"], found["state"], found["recipe"]) == ("trial", "sweep-1", "paused", "grpo")
    assert [each["outcome"] for each in found["segments"]] == ["committed", "committed", "committed", "lost"]
    assert sum(each["charged_gpu_hours"] for each in found["segments"]) == found["gpu_hours_spent"] == 94.0
    assert [each["to_state"] for each in found["transitions"]][-3:] == ["running", "lost", "paused"]
    assert found["transitions"][0]["from_state"] is None
    assert [each["action"] for each in found["decisions"]] == ["start", "continue", "continue", "continue"]
    assert len(found["points"]) == 16
    assert found["config"] == {"kl": 0.0}
    rows = run("show", "n512-B32-s0", "--format", "csv").rows
    assert [float(row["score"]) for row in rows] == [each["score"] for each in found["points"]]


def test_a_plain_terminal_gets_plain_signs(process: Run, database: str) -> None:
    ran = process("show", "n512", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.isascii()
    assert "?" not in ran.out
    assert "*****" in ran.out
    assert "\x1b[" not in ran.out
