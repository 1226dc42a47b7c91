"""How long the store takes for 100,000 points in one call, on a fresh SQLite file; median of five. The bar is 2 s."""

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from planner.store import Store, open_store
from planner.store.results import add_points
from planner.store.schema import Plan, Point, Sweep, Trial
from planner.store.sweeps import add_trial, create_sweep

POINTS, TRIALS, RUNS, BAR_SECONDS = 100_000, 100, 5, 2.0


def trials(store: Store) -> list[int]:
    """Store a plan, a sweep and its trials."""
    now = datetime.now(UTC)
    of: dict[str, Any] = {"recipe": "grpo", "config": {}}
    hours = {"budget_gpu_hours": 10.0, "pilot_gpu_hours": 2.0, "final_gpu_hours": 8.0}
    empty: dict[str, Any] = {"workload": {}, "hardware": {}, "assumptions": [], "outlook": []}
    store.save_plan(Plan(**of, **hours, **empty, difficulty="hard", rlplan_version="0"), [], created_at=now)
    with store.write() as session:
        sweep = create_sweep(session, None, Sweep(policy="rlplan", seed=0, config={}, config_hash=""), now)
        of |= {"rollouts_per_prompt": 8, "prompts_per_batch": 64, "learning_rate": 1e-6, "axes": ()}
        new = (Trial(**of, name=f"t{seed}", seed=seed) for seed in range(TRIALS))
        return [add_trial(session, sweep, each, now) for each in new]


def stored(store: Store, rows: list[Point]) -> int:
    """Store points in a transaction of their own, and return how many were new."""
    with store.write() as session:
        return add_points(session, rows)


def points(trial_ids: list[int]) -> list[Point]:
    """Make points of all trials in turn, as they arrive from workers."""
    metrics = {"kl": 0.01, "entropy": 1.25, "response_tokens": 812.5}
    return [
        Point(
            trial_id=trial_id,
            attempt=1,
            optimizer_step=step,
            rollouts=step * 512,
            tokens=step * 400_000,
            seconds=step * 1.5,
            gpu_hours=step * 0.1,
            score=0.5,
            score_standard_error=0.01,
            metrics=metrics,
        )
        for step in range(POINTS // TRIALS)
        for trial_id in trial_ids
    ]


def seconds_of_one_run() -> tuple[float, float]:
    """Measure storing all points, then sending all of them again."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "rlplan.db") as store:
        rows = points(trials(store))
        begun = time.perf_counter()
        assert stored(store, rows) == POINTS
        middle = time.perf_counter()
        assert stored(store, rows) == 0
        return middle - begun, time.perf_counter() - middle


def main() -> None:
    """Print the table."""
    runs = [seconds_of_one_run() for _ in range(RUNS)]
    first, again = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"| what | points | seconds, median of {RUNS} | bar |")
    print("|---|---|---|---|")
    print(f"| stored | {POINTS:,} | {first:.2f} | {BAR_SECONDS:.0f} |")
    print(f"| sent again, none stored | {POINTS:,} | {again:.2f} | {BAR_SECONDS:.0f} |")


if __name__ == "__main__":
    main()
