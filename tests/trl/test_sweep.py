"""A whole sweep that real TRL trains recommends an allocation that is nearly the best of the recorded grid."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHIN = 0.02
# Nothing is said of what TRL takes to start: the sweep measures it.
CONFIG = f"""
[trainer]
name = "trl"
python = "{sys.executable}"
"""


@pytest.mark.soak
def test_a_sweep_by_trl_recommends_nearly_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    from live_parts.grid import Grid

    (tmp_path / "rlplan.toml").write_text(CONFIG)
    wanted = ["--task", "sum-easy", "--budget", "0.3", "--db", "rlplan.db", "--folder", "runs", "--format", "json"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from rlplan.entry import main; raise SystemExit(main())",
            "sweep",
            "--trainer",
            "trl",
            *wanted,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["recommendation"]
    truth = Grid.read("sum-easy").truth
    chosen = truth[said["rollouts_per_prompt"], said["prompts_per_batch"]]
    assert chosen >= max(truth.values()) - WITHIN
