"""Three steps that TRL trains here count for the price of its set-up."""

import os
import subprocess
import sys
from pathlib import Path

from planner.store import open_store

ROOT = Path(__file__).parents[2]
MAIN = "from rlplan.entry import main; raise SystemExit(main())"


def test_steps_of_trl_are_compared_by_phase_and_stored_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text(f'[trainer]\nname = "trl"\npython = "{sys.executable}"\n')
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "price", "--measure", "--task", "sum-easy", "-n", "4", "-B", "4"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with open_store(str(tmp_path / "rlplan.db")) as store:
        (record,) = store.cost_records()

    assert len(done.stdout.splitlines()) <= 24
    assert {"generate", "train and the rest", "a step"} <= {
        line.partition("  ")[0] for line in done.stdout.splitlines()
    }
    assert (record.trainer, record.steps, list(record.seconds)) == ("trl", 3, ["step"])
    assert not (tmp_path / "rlplan-sweeps").exists()
