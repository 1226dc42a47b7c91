import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.live_parts.grid import Grid
from bench.live_parts.loop import Loops, Observed
from bench.live_parts.pruned import GivenUp, keep, prunings, reached, read
from bench.live_parts.pruned import report as report_pruned
from bench.live_parts.rows import NEAR, Row, report, row
from budgets.errors import InputError

COLUMNS = "run,rollouts_per_prompt,prompts_per_batch,seed,gpu_hours,score,step"


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    rows = [
        f"{name},{n},8,{seed},{0.1 * step},{min(top, 0.1 * step)},{step}"
        for name, n, seed, top in (("a", 4, 0, 0.8), ("b", 4, 1, 0.6), ("c", 8, 0, 0.9))
        for step in range(1, 11)
    ]
    (tmp_path / "allocbench-toy.csv.gz").write_bytes(gzip.compress("\n".join([COLUMNS, *rows]).encode()))
    return Grid.read("toy", tmp_path)


def said(low: float, high: float, n: int = 4) -> dict[str, Any]:
    chosen = {"rollouts_per_prompt": n, "prompts_per_batch": 8, "probability_best": 0.5}
    promised = {"expected_score": (low + high) / 2, "score_low": low, "score_high": high}
    return {"recommendation": chosen | promised, "spent_gpu_hours": 0.9, "pilot_gpu_hours": 1.0, "trained_share": 0.08}


def test_the_truth_is_the_mean_over_seeds_at_the_middle_length(grid: Grid) -> None:
    assert (grid.target, grid.cost) == pytest.approx((1.0, 2.0))
    assert grid.truth == pytest.approx({(4, 8): 0.7, (8, 8): 0.9})
    assert grid.hours_at((4, 8), 20) == pytest.approx(2.0)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no table .*allocbench-toy.csv.gz: make it"):
        Grid.read("toy", tmp_path)


def test_slowness_is_how_much_longer_updates_took(grid: Grid, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.executescript(
            """
            CREATE TABLE sweeps (id, name); INSERT INTO sweeps VALUES (1, 'sweep-1');
            CREATE TABLE trials (id, sweep_id, rollouts_per_prompt, prompts_per_batch);
            INSERT INTO trials VALUES (1, 1, 4, 8), (2, 1, 8, 8), (3, 1, 8, 8), (4, 1, 2, 2);
            CREATE TABLE points (trial_id, optimizer_step, gpu_hours);
            INSERT INTO points VALUES (1, 0, 9), (1, 5, 1.0), (2, 10, 3.0), (3, 10, 9.0), (4, 10, 99);
            """
        )
    assert grid.slowness(tmp_path / "s.db", "sweep-1") == pytest.approx(3.0)
    assert grid.trained(tmp_path / "s.db", "sweep-1") == pytest.approx(2.5)
    with pytest.raises(InputError, match=r"sweep-2 in .* has no trial"):
        grid.slowness(tmp_path / "s.db", "sweep-2")


def test_a_row_compares_what_was_promised_with_what_came_and_with_the_grid(grid: Grid, tmp_path: Path) -> None:
    loops = Loops(tmp_path, "toy", grid, 0.1, 2)
    made = row(loops, 3, said(0.75, 0.95), Observed(0.89, 10))
    assert made.inside
    assert made.regret == pytest.approx(0.01)
    assert (made.best, made.of_cell) == (((8, 8), pytest.approx(0.9)), pytest.approx(0.7))
    assert (made.spent, made.trained, made.length) == pytest.approx((0.09, 0.08, 1.0))
    assert made.line().startswith(
        "| 3 | toy | n=4, B=8 | 0.50 | 0.850 (0.750 to 0.950) | 0.890 | 0.900 (n=8, B=8) | +0.010"
    )
    assert not row(loops, 3, said(0.75, 0.95), Observed(0.7, 10)).inside
    assert row(loops, 3, said(0.1, 0.9, n=64), Observed(0.5, 10)).of_cell is None


def test_the_totals_and_the_bars(grid: Grid, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loops = Loops(tmp_path, "toy", grid, 0.1, 2)
    good = row(loops, 0, said(0.8, 1.0), Observed(0.9, 10))
    far = row(loops, 1, said(0.8, 1.0), Observed(0.9 - 2 * NEAR, 10))
    wrong = row(loops, 2, said(0.0, 0.1), Observed(0.9, 10))
    assert missed([good] * 5, capsys) == (0, "5 of 5 inside", "5 of 5 within")
    assert missed([good] * 4 + [wrong], capsys) == (0, "4 of 5 inside", "5 of 5 within")
    assert missed([good, wrong, far], capsys) == (2, "2 of 3 inside", "2 of 3 within")
    assert report([good] * 9 + [far], enough_near=0.9) == 0
    assert report([good] * 8 + [far] * 2, enough_near=0.9) == 1


def missed(rows: list[Row], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    count = report(rows)
    inside, near, own, trained = capsys.readouterr().out.strip().splitlines()
    assert own.startswith(f"0 of {len(rows)} recommend a configuration whose mean in the grid is within 0.02")
    assert trained == "pilots trained for at most 8.0% of the grid's cost"
    return count, " ".join(inside.split()[:4]), " ".join(near.split()[:4])


class Commands:
    """Stands in for the commands of rlplan: a sweep ends at once."""

    def __init__(self, database: Path) -> None:
        self.database, self.given = database, list[tuple[str, ...]]()
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript(
                """
                CREATE TABLE plans (id, name); INSERT INTO plans VALUES (1, 'plan-1'), (2, 'plan-2');
                CREATE TABLE sweeps (id INTEGER PRIMARY KEY, name, status, plan_id, seed, policy);
                """
            )

    def __call__(self, *arguments: str) -> str:
        self.given.append(arguments)
        _, plan, _, seed, *_ = arguments
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute(
                "INSERT INTO sweeps (name, status, plan_id, seed, policy) SELECT 'sweep-' || (1 + count(*)), "
                "'finished', ?, ?, 'rlplan' FROM sweeps",
                (int(plan[-1]), int(seed)),
            )
            connection.commit()
        return "{}"


def test_loops_learn_from_one_sweep_of_the_other_task_and_else_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = Loops.following(tmp_path, "sum-hard", "sum-easy", (0.04, 0.1), 1)
    assert loops.after is not None
    assert (loops.share, loops.after.share, loops.after.database) == (0.04, 0.1, loops.database)
    commands = Commands(loops.database)
    monkeypatch.setattr("bench.live_parts.loop.rlplan", commands)
    for each, plan in ((loops.after, "plan-1"), (loops, "plan-2")):
        (tmp_path / f"{each.stem}-plan.json").write_text(f'{{"plan": "{plan}"}}')
    assert [loops.swept(seed, "plan-2") for seed in (0, 1, 1)] == ["sweep-2", "sweep-3", "sweep-3"]
    learnt = [given[given.index("--learn-from") + 1] for given in commands.given]
    assert learnt == ["none", "sweep-1", "sweep-1"]


def test_what_a_sweep_gave_up_is_read_with_what_it_was_given_up_by(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.executescript(
            """
            CREATE TABLE trials (id, name, state);
            INSERT INTO trials VALUES (1, 'n8-B4-s0', 'pruned'), (2, 'n4-B4-s0', 'finished');
            CREATE TABLE points (trial_id, gpu_hours); INSERT INTO points VALUES (1, 0.1), (1, 0.2), (2, 0.9);
            CREATE TABLE decisions (number, trial_id, action, seen);
            INSERT INTO decisions VALUES (1, 2, 'start', '{}'), (2, 1, 'start', '{}'), (3, 1, 'prune', '{"high": 0.7}');
            """
        )
    (found,) = prunings(tmp_path / "s.db")
    assert (found.trial, found.at, found.seen) == ("n8-B4-s0", 0.2, {"high": 0.7})


def test_the_share_above_the_bound_is_the_bar_and_rows_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        GivenUp(0, f"n{place}-B4-s0", 0.001, 0.03, 0.69, 0.62, 0.74, 0.94 if place == 0 else 0.7, 0.03)
        for place in range(10)
    ]
    for each in rows:
        keep(tmp_path / "pruned.csv", each)
    assert read(tmp_path / "pruned.csv") == rows
    assert report_pruned(rows, 2) == 0
    assert "1 of 10 runs given up in 2 sweeps of 0.05 GPU-hours end above" in capsys.readouterr().out
    assert report_pruned([*rows, rows[0]], 2) == 1
    assert "MISSED" in capsys.readouterr().out
    assert "nothing was given up" in (report_pruned([], 2), capsys.readouterr().out)[1]


def test_a_run_is_judged_where_its_sweep_predicted_it_and_not_where_it_happens_to_end() -> None:
    points = [(0.1 * place, 0.1 * place) for place in range(1, 10)]
    assert reached(points, 0.55) == pytest.approx((0.5, 0.5))
    assert reached(points, 2.0) == pytest.approx((0.9, 0.9))
    assert reached(points, 0.01) == pytest.approx((0.1, 0.1))
