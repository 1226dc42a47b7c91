import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.allocating.prices import Price, Prices
from bench.allocating.ranks import crossings
from bench.allocating.reading import recorded
from bench.allocating.surface import explained_out_of_sample, optimum, score_at
from bench.allocating.table import COLUMNS, Run, read, write

POINTS = 40


def run(n: int, B: int, seed: int = 0, end: float = 0.9, middle: float = 0.1) -> Run:
    x = np.linspace(0, 1, POINTS)
    score = 0.1 + (end - 0.1) * x / (x + middle)
    counts = np.arange(POINTS, dtype=float)
    return Run(
        "sum-easy", "easy", n, B, seed, x, score, np.full(POINTS, 0.01), counts, n * B * counts, counts, x * 3600
    )


def test_a_table_comes_back_as_it_was_written_and_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    runs = [run(8, 4), run(4, 8, seed=1)]
    first, second = tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"
    assert write(runs, first) == first.stat().st_size
    write(reversed(runs), second)
    assert first.read_bytes() == second.read_bytes()
    back = read(first)
    assert [(each.name, each.cell, each.seed) for each in back] == [
        ("easy-n4-B8-s1", (4, 8), 1),
        ("easy-n8-B4-s0", (8, 4), 0),
    ]
    np.testing.assert_allclose(back[1].score, runs[0].score, rtol=1e-7)
    assert COLUMNS[:6] == ("run", "rollouts_per_prompt", "prompts_per_batch", "seed", "gpu_hours", "score")


@pytest.mark.parametrize("at", [0.2, 0.5, 1.0])
def test_the_score_at_a_compute_follows_the_curve_and_ends_with_it(at: float) -> None:
    each = run(8, 8)
    assert score_at(each, at) == pytest.approx(float(np.interp(at, each.gpu_hours, each.score)), abs=0.004)
    assert np.isnan(score_at(each, 1.1))


def test_the_best_n_of_a_smooth_surface_is_found() -> None:
    cells = [(n, B) for n in (2, 4, 8, 16, 32) for B in (2, 4, 8)]
    runs = [run(n, B, end=0.9 - 0.02 * (np.log2(n) - 3) ** 2 - 0.01 * (np.log2(B) - 2) ** 2) for n, B in cells]
    best = optimum(runs, 1.0)
    assert best.cell == best.surface_cell == (8, 4)
    assert best.low <= 8 <= best.high


def test_what_is_left_out_is_explained_by_what_it_depends_on() -> None:
    logs = np.log2(np.array([(n, B) for n in (2, 4, 8, 16) for B in (2, 4, 8)], dtype=float))
    values = 0.1 * logs[:, 0] ** 2
    assert explained_out_of_sample(logs[:, :1], values) == pytest.approx(1.0)
    assert explained_out_of_sample(logs[:, 1:], values) < 0


def test_curves_that_cross_are_counted() -> None:
    slow = [run(n, 8, end=0.5 + 0.1 * k, middle=0.02 * 3**k) for k, n in enumerate((2, 4, 8, 16))]
    (early, late) = crossings([*slow, *(replace(each, seed=1) for each in slow)], (0.02, 1.0))
    assert early.correlation < 0 < late.correlation
    assert early.crossed > 0.5 > late.crossed == 0
    assert early.regret_of_cells == early.regret_of_seeds > 0.1
    assert late.regret_of_seeds == 0


def test_the_newest_attempt_of_runs_that_have_ended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "easy.db"
    parts = json.dumps({"trained_rollouts": 32, "seconds": {"generate": 1.0, "train": 2.0, "evaluate": 0.5}})
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE plans (id, config);
            CREATE TABLE sweeps (id, plan_id, policy, status);
            CREATE TABLE trials (id, sweep_id, rollouts_per_prompt, prompts_per_batch, seed, recipe, state);
            CREATE TABLE points (trial_id, optimizer_step, attempt, rollouts, tokens, seconds, score,
                                 score_standard_error, metrics);
            INSERT INTO plans VALUES (1, '{"pilot": {"cells": "informative"}}'), (2, '{"pilot": {"cells": "all"}}');
            INSERT INTO sweeps VALUES (1, 1, 'full', 'finished'), (2, 2, 'full', 'running'), (3, 2, 'full', 'finished');
            INSERT INTO trials VALUES (1, 1, 4, 8, 0, 'easy', 'finished'), (2, 2, 4, 8, 0, 'easy', 'finished'),
                                      (3, 2, 8, 8, 0, 'easy', 'paused'), (4, 3, 8, 8, 1, 'easy', 'paused'),
                (5, 3, 4, 8, 0, 'easy', 'finished');
            """
        )
        rows = [(0, 1, 0, 0.3), (1, 1, 32, 0.4), (1, 2, 32, 0.45), (2, 2, 64, 0.6)]
        for step, attempt, rollouts, score in rows:
            connection.execute(
                "INSERT INTO points VALUES (2, ?, ?, ?, 9, 1.0, ?, 0.02, ?)", (step, attempt, rollouts, score, parts)
            )
        for trial in (3, 4, 5):  # one that goes on, one whose sweep has ended, a shorter one of the same seed
            connection.execute("INSERT INTO points VALUES (?, 0, 1, 0, 0, 1.0, 0.3, 0.02, ?)", (trial, parts))
        connection.commit()
    found, short = recorded(path, "sum-easy")
    assert (short.n, short.seed, len(short.points)) == (8, 1, 1)
    priced = found.run(Prices(Price(1.0, 0.0, 0.0), Price(2.0, 0.0, 0.0), 0.5))
    assert priced.score.tolist() == [0.3, 0.45, 0.6]
    np.testing.assert_allclose(3600 * priced.gpu_hours, [2.5, 6.0, 9.5])
