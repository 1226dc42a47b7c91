"""`rlplan status`: the list of all sweeps, and the trials that are asked for."""

from pathlib import Path

import pytest

from planner.store import open_store, sweeps
from planner.store.schema import SweepStatus
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import SETTINGS, seeded


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Two sweeps, one of them with a recommendation, and a plan that no sweep has run."""
    seeder = seeded(tmp_path / "rlplan.db")
    seeder.recommend()
    seeder.end(SweepStatus.FINISHED)
    with seeder.store as store:
        samples.put(store, sweeps.create_sweep, None, samples.sweep(policy="asha", config=SETTINGS), at(500))
        store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    return str(tmp_path / "rlplan.db")


def test_the_list_is_sorted_and_filtered(run: Run, database: str) -> None:
    def names(*args: str) -> list[str]:
        document = run.json("status", "--all", *args)
        return [each["sweep"] for each in document["sweeps"]]

    assert names("--sort", "score") == ["sweep-1", "sweep-2"]
    assert names("--reverse") == ["sweep-1", "sweep-2"]
    assert names("--top", "1") == ["sweep-2"]
    assert names("--status", "finished") == ["sweep-1"]
    assert "1 more sweep not shown" in run("status", "--all", "--top", "1").out
    assert "No sweep is what is asked for" in run("status", "--all", "--status", "failed").out


@pytest.mark.parametrize(
    ("args", "names"),
    [
        ((), ["n512-B32-s0", "n128-B64-s0", "n64-B128-s0", "n32-B32-s0", "n16-B128-s0", "n1024-B1024-s0", "n8-B32-s0"]),
        (("--status", "running,paused", "--sort", "n"), ["n64-B128-s0", "n128-B64-s0", "n512-B32-s0"]),
        (("--sort", "score", "--top", "2"), ["n512-B32-s0", "n128-B64-s0"]),
        (("--sort", "p-best", "--reverse", "--status", "pruned"), ["n16-B128-s0", "n32-B32-s0"]),
        (("--sort", "spent", "--top", "1"), ["n512-B32-s0"]),
        (("--status", "lost"), []),
    ],
)
def test_trials_are_sorted_and_filtered_in_every_format(
    run: Run, database: str, args: tuple[str, ...], names: list[str]
) -> None:
    document = run.json("status", "sweep-1", *args)
    assert [trial["trial"] for trial in document["trials"]] == names
    rows = run("status", "sweep-1", *args, "--format", "csv").rows
    assert [row["trial"] for row in rows] == names
    if args:
        lines = run("status", "sweep-1", *args, width=200).out.splitlines()
        assert [line.split()[0] for line in lines if line.startswith("n") and line[1].isdigit()] == names
    if "running,paused" in args:
        assert "4 not shown: 1 planned, " in run("status", "sweep-1", *args).out


def test_what_a_sweeps_checkpoints_take_is_said(run: Run, database: str, tmp_path: Path) -> None:
    with open_store(database) as store, store.write() as session:
        row = sweeps.sweep_named(session, "sweep-1")
        row.config = {**row.config, "folder": str(tmp_path / "sweep-1")}
    for name, size in (("n8-B64-s0/trainer/checkpoint-20/weights", 3 << 20), ("n8-B64-s0/metrics.jsonl", 1 << 20)):
        path = tmp_path / "sweep-1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    said = run("status", "sweep-1", "--explain").text
    assert "3 MiB checkpoints, 1 MiB other files in" in said
    assert run.json("status", "sweep-1")["storage"]["checkpoints"] == 3 << 20
    assert run.json("status", "sweep-2")["storage"] is None
