"""The folder in which a page's commands are run: the files and databases that its examples name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.synthetic import draw
from tests.planner.curves.family_samples import EASY, group_curve
from tests.planner.replay.tables import grid
from tests.rlplan.adopted_runs import FIVE, folders
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import seeded
from tests.rlplan.test_check_command import SOUND
from tests.rlplan.test_replay_command import write

# The pages that look at a sweep while it runs; the others that need one look at one that has ended.
UNDER_WAY = ("sweeps.md",)
ENDED = ("README.md", "recommendation.md", "report.md", "database.md", "python.md")


def furnish(folder: Path, page: str) -> None:
    """Write what the examples of a page need into an empty folder."""
    _curves(folder)
    if page in UNDER_WAY:
        seeded(folder / "rlplan.db").store.close()
    elif page in ENDED:
        ended(folder / "rlplan.db", saved=True)
    MORE.get(page, lambda _: None)(folder)


def _curves(folder: Path) -> None:
    """Write learning curves: one a file."""
    (folder / "runs").mkdir()
    for seed, name in enumerate(("n16", "n64")):
        curve = draw("sigmoid", np.random.default_rng(seed)).curve
        rows = "".join(f"{x},{y}\n" for x, y in zip(curve.x, curve.y, strict=True))
        (folder / "runs" / f"{name}.csv").write_text("gpu_hours,score\n" + rows, encoding="utf-8")


def table(name: str) -> Callable[[Path], None]:
    """Return what writes a small table of recorded runs, as `rlplan replay` reads it."""
    return lambda folder: write(folder / name, grid(cells=6, seeds=1, points=12))


def _shapes_of_curves(folder: Path) -> None:
    """Write curves as the page on them has them: one a file, several in a file, and a folder of logs."""
    curve = draw("sigmoid", np.random.default_rng(2)).curve
    points = list(zip(curve.x, curve.y, strict=True))
    single = "".join(f"{x},{y}\n" for x, y in points)
    (folder / "run.csv").write_text("gpu_hours,score\n" + single, encoding="utf-8")
    several = "".join(f"{run},{x},{y}\n" for run in "ab" for x, y in points)
    (folder / "sweep.csv").write_text("run,gpu_hours,score\n" + several, encoding="utf-8")
    _tables_of_laws(folder)
    (folder / "logs").mkdir()
    rows = [{"step": i, "gpu_hours": x, "val-core/gsm8k/acc/mean@8": y} for i, (x, y) in enumerate(points)]
    (folder / "logs" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _tables_of_laws(folder: Path) -> None:
    """Write a table for the law that goes across runs, and one of recipes."""
    columns = {
        "groups": ("rollouts_per_prompt", [(group, group_curve(group, EASY, 0.005)) for group in (8, 32, 128)]),
        "recipes": ("recipe", [(name, draw("sigmoid", np.random.default_rng(5)).curve) for name in ("ours", "theirs")]),
    }
    for name, (column, curves) in columns.items():
        rows = "".join(f"{value},{x},{y}\n" for value, c in curves for x, y in zip(c.x, c.y, strict=True))
        (folder / f"{name}.csv").write_text(f"{column},compute,score\n{rows}", encoding="utf-8")


def _runs_of_trainers(folder: Path) -> None:
    """Write runs as other people's trainers leave them."""
    folders(folder / "old-runs", FIVE)


MEASURED = Path(__file__).parents[2] / "bench" / "data" / "measured_steps.csv"
TRAINABLES = Path(__file__).parents[1] / "runner" / "trainers" / "own" / "trainables.py"
MORE: dict[str, Callable[[Path], object]] = {
    "adopting.md": _runs_of_trainers,
    "checking.md": lambda folder: (folder / "run_grpo.sh").write_text(SOUND, encoding="utf-8"),
    "costs-table.md": lambda folder: shutil.copy(MEASURED, folder / "runs.csv"),
    "curves.md": _shapes_of_curves,
    "replay.md": table("runs.csv"),
    "allocbench.md": table("sum-hard.csv"),
    "faq.md": table("runs.csv"),
    "README.md": table("runs.csv"),
    "trainers.md": lambda folder: shutil.copy(TRAINABLES, folder / "train.py"),
}
