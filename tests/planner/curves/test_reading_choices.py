import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError, UnknownNameError
from planner.curves.reading import read_curves
from tests.planner.curves.curves_read import noted, only, points
from tests.planner.curves.reading_samples import csv_file, jsonl

# --- one score among many, one axis among many ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("val-core/gsm8k/acc/mean@8", "critic/score/mean"),
        ("val-core/gsm8k/acc/mean@8", "val-core/gsm8k/acc/best@8/mean"),
        ("eval/math500/avg@8", "train/reward"),
        ("eval/all/avg_score", "reward/avg_raw_reward"),
        ("eval_reward", "reward"),
        ("eval_reward", "eval_reward_std"),
        ("val:accuracy", "reward"),
        ("eval/eval_gsm8k_pass1", "train/reward"),
        ("critic/score/mean", "critic/rewards/mean"),
        ("Accuracy", "reward"),
        ("val/score", "train/score"),
        ("eval_reward", "train/score"),
        ("validation/accuracy", "training/accuracy"),
        ("mine/score", "mine/std"),
        ("anything", "loss"),
    ],
)
def test_validation_is_preferred_to_training(tmp_path: Path, better: str, worse: str) -> None:
    rows = [{"step": step, worse: 5.0 + step, better: step / 10} for step in (1, 2, 3)]
    assert only(jsonl(tmp_path / "a.jsonl", rows)).y.tolist() == [0.1, 0.2, 0.3]


def test_a_score_with_a_single_value_is_passed_over(tmp_path: Path) -> None:
    rows = [{"step": 0, "eval_reward": 0.1}, {"step": 1, "reward": 0.2}, {"step": 2, "reward": 0.3}]
    assert only(jsonl(tmp_path / "a.jsonl", rows)).y.tolist() == [0.2, 0.3]


def test_scores_of_equal_standing_are_for_a_person_to_choose(tmp_path: Path) -> None:
    rows = [{"step": step, "eval/aime/avg@8": 0.1, "eval/math/avg@8": 0.5} for step in (1, 2)]
    path = jsonl(tmp_path / "a.jsonl", rows)
    with pytest.raises(InputError, match=r"several scores: eval/aime/avg@8, eval/math/avg@8; choose one with --y"):
        read_curves(path)
    assert only(path, y="math/avg@8").y.tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="fits several columns"):
        read_curves(path, y="avg@8")


def test_a_failed_guess_lists_twenty_columns_at_most(tmp_path: Path) -> None:
    header = ",".join(f"c{number}" for number in range(30))
    with pytest.raises(InputError, match=r"c0, c1,.*c19 and 10 more\. Name them with --x NAME --y NAME"):
        read_curves(csv_file(tmp_path / "a.csv", header, [range(30)] * 3))


def test_a_loss_is_not_taken_for_a_score(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--y NAME"):
        read_curves(csv_file(tmp_path / "a.csv", "step,train_loss", [(1, 2), (2, 1)]))


def test_an_unknown_axis_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="x axis"):
        read_curves(csv_file(tmp_path / "a.csv", "score,foo,bar", [(0.1, 1, 1), (0.2, 2, 2)]))


def test_an_unknown_name_offers_the_nearest(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "step,score,val/accuracy", [(1, 2, 3), (2, 3, 4)])
    with pytest.raises(UnknownNameError, match=r"unknown column 'acuracy': did you mean 'val/accuracy'"):
        read_curves(path, y="acuracy")
    with pytest.raises(UnknownNameError, match=r"known are score, step, val/accuracy\. Name a column of 'a' with --x"):
        read_curves(path, x="zzzzzz")


def test_a_text_column_is_no_axis(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "step,when,score", [(1, "monday", 3), (2, "tuesday", 4)])
    with pytest.raises(InputError, match="'when' of 'a' holds text"):
        read_curves(path, x="when")


def test_a_number_of_each_step_is_not_taken_for_a_total(tmp_path: Path) -> None:
    rows = [{"step": n, "progress/tokens": 100 - n % 2, "reward": 0.1 * n} for n in range(4)]
    assert only(jsonl(tmp_path / "a.jsonl", rows)).x.tolist() == [0, 1, 2, 3]
    totals = [{**row, "progress/total_tokens": 100 * number} for number, row in enumerate(rows)]
    assert only(jsonl(tmp_path / "b.jsonl", totals)).x.tolist() == [0, 100, 200, 300]


@pytest.mark.parametrize("clock", ["_runtime", "seconds", "Relative Time (Process)"])
def test_steps_are_preferred_to_the_time_on_a_clock_and_the_note_says_so(tmp_path: Path, clock: str) -> None:
    path = csv_file(tmp_path / "a.csv", f"Step,{clock},score", [(n, 37.5 * n, n / 10) for n in range(1, 5)])
    curve = only(path)
    assert curve.x.tolist() == [1, 2, 3, 4]
    assert noted(curve, "guessed: x is 'Step'")
    assert only(path, x=clock).x.tolist() == [37.5, 75, 112.5, 150]
    spent = csv_file(tmp_path / "b.csv", f"Step,{clock},gpu_hours,score", [(n, n, n / 2, 0.1 * n) for n in (1, 2, 3)])
    assert only(spent).x.tolist() == [0.5, 1, 1.5]


def test_the_time_on_a_clock_is_an_axis_where_there_is_no_other(tmp_path: Path) -> None:
    assert only(csv_file(tmp_path / "a.csv", "_runtime,score", [(30, 0.1), (60, 0.2)])).x.tolist() == [30, 60]


@pytest.mark.parametrize(
    ("name", "top", "seems"),
    [
        ("val_acc", 62.0, True),
        ("metric", 62.0, True),
        ("reward", 6.0, False),
        ("score", 1.0, False),
        ("acc", 120, False),
    ],
)
def test_percentages_are_noted_and_converted_only_on_request(
    tmp_path: Path, name: str, top: float, seems: bool
) -> None:
    path = csv_file(tmp_path / "a.csv", f"step,{name}", [(1, 0.5), (2, top)])
    curve = only(path)
    assert curve.y.tolist() == [0.5, top]
    assert noted(curve, "divide by 100 with --percent") == seems
    divided = only(path, percent=True)
    assert divided.y.tolist() == [0.005, top / 100]
    assert not noted(divided, "--percent")


# --- several curves in one file -------------------------------------------------------------------------------------


def test_runs_are_split_by_the_column_given(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "n,step,score", [(8, 1, 0.1), (16, 2, 0.2), (8, 3, 0.3), (16, 4, 0.4)])
    eight, sixteen = read_curves(path, by="n")
    assert (eight.name, sixteen.name) == ("a/n=8", "a/n=16")
    assert points(eight) == [(1, 0.1), (3, 0.3)]
    assert points(sixteen) == [(2, 0.2), (4, 0.4)]


def test_runs_are_split_by_an_obvious_column_when_steps_repeat(tmp_path: Path) -> None:
    rows = [(run, step, step / 10) for run in ("x", "y") for step in (1, 2, 3)]
    curves = read_curves(csv_file(tmp_path / "a.csv", "run,step,score", rows))
    assert [curve.name for curve in curves] == ["a/x", "a/y"]
    assert all(points(curve) == [(1, 0.1), (2, 0.2), (3, 0.3)] and noted(curve, "split by run") for curve in curves)


def test_interleaved_runs_and_one_that_restarted(tmp_path: Path) -> None:
    rows = [("x", 1, 0.1), ("y", 1, 0.5), ("x", 2, 0.9), ("x", 3, 0.9), ("y", 2, 0.6), ("x", 2, 0.2), ("x", 3, 0.3)]
    first, second = read_curves(csv_file(tmp_path / "a.csv", "run,step,score", rows))
    assert points(first) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert noted(first, "restarted at step 2")
    assert points(second) == [(1, 0.5), (2, 0.6)]


def test_a_run_column_alone_splits_nothing(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "run_id,step,score", [("a", 1, 0.1), ("a", 2, 0.2), ("b", 3, 0.3)])
    assert only(path).x.size == 3


@pytest.mark.parametrize(
    ("header", "rows", "flag"),
    [
        ("method,step,score", [(m, s, 0.1) for m in "ab" for s in range(5)], "--by method"),
        ("n,step,score", [(n, s, 0.1) for n in (8, 16) for s in range(5)], "--by n"),
        ("method,step,score", [(m, s, 0.1) for s in range(5) for m in "ab"], "--by method"),
        ("m,seed,step,score", [(m, k, s, 0.1) for m in "ab" for k in (1, 2) for s in range(5)], "--by seed,m"),
        ("n,B,step,score", [(n, b, s, 0.1) for n in (8, 16) for b in (1, 2) for s in range(5)], "--by n,B"),
    ],
)
def test_mixed_curves_are_refused_and_the_flag_is_named(
    tmp_path: Path, header: str, rows: list[tuple[object, ...]], flag: str
) -> None:
    path = csv_file(tmp_path / "a.csv", header, rows)
    with pytest.raises(InputError, match=flag + r" \(--by '' if it is one curve\)"):
        read_curves(path)
    curves = read_curves(path, by=flag.removeprefix("--by "))
    assert {curve.x.tolist() == [0, 1, 2, 3, 4] for curve in curves} == {True}
    assert len(read_curves(path, by="")) == 1


def test_a_table_of_recorded_trials(tmp_path: Path) -> None:
    header = "run,rollouts_per_prompt,prompts_per_batch,seed,gpu_hours,score"
    rows = [(f"{n}-{k}", n, 64, k, n * s * 0.11, 0.1 * s) for n in (8, 16) for k in (0, 1) for s in (1, 2, 3)]
    path = csv_file(tmp_path / "a.csv", header, rows)
    assert [curve.name for curve in read_curves(path)] == ["a/8-0", "a/8-1", "a/16-0", "a/16-1"]
    assert all(curve.x.size == 3 for curve in read_curves(path, by="rollouts_per_prompt,seed"))


def test_columns_that_tell_runs_apart_are_no_scores(tmp_path: Path) -> None:
    rows = [(n, k, step, 0.5) for n in (8, 16) for k in (0, 1) for step in (1, 2)]
    curves = read_curves(csv_file(tmp_path / "a.csv", "n,seed,step,quality", rows), by="n,seed")
    assert [curve.y.tolist() for curve in curves] == [[0.5, 0.5]] * 4


def test_a_measurement_with_few_values_does_not_tell_curves_apart(tmp_path: Path) -> None:
    rows = [(step, step % 3, step / 20) for step in [*range(12), *range(9, 20)]]
    assert noted(only(csv_file(tmp_path / "a.csv", "step,clips,score", rows)), "restarted at step 9")


def test_scores_without_a_run_are_dropped_and_counted(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "run,step,score", [("x", 1, 0.1), ("", 1, 0.2), ("y", 1, 0.3)])
    curves = read_curves(path, by="run")
    assert [curve.name for curve in curves] == ["a/x", "a/y"]
    assert noted(curves[0], "1 scores dropped: no run")


def test_a_column_that_would_make_too_many_curves(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "id,step,score", [(n, n, 0.5) for n in range(10_001)])
    with pytest.raises(InputError, match="would make 10001 curves"):
        read_curves(path, by="id")


# --- restarted runs -------------------------------------------------------------------------------------------------


def test_the_newest_attempt_wins(tmp_path: Path) -> None:
    old = [(step, 0.9) for step in range(1, 9)]
    new = [(step, 0.1) for step in range(5, 7)]
    curve = only(csv_file(tmp_path / "a.csv", "step,score", [*old, *new]))
    assert points(curve) == [(1, 0.9), (2, 0.9), (3, 0.9), (4, 0.9), (5, 0.1), (6, 0.1)]
    assert noted(curve, "restarted at step 5: 4 earlier scores replaced")


def test_repeated_steps_within_an_attempt_are_kept(tmp_path: Path) -> None:
    curve = only(csv_file(tmp_path / "a.csv", "step,score", [(1, 0.1), (1, 0.3), (2, 0.2), (2, 0.4)]))
    assert points(curve) == [(1, 0.1), (1, 0.3), (2, 0.2), (2, 0.4)]


@pytest.mark.parametrize(
    "steps",
    [
        [5, 4, 3, 2, 1],
        [6, 7, 8, 9, 1, 2, 3, 4],
        [3, 1],
        [(171 * n) % 401 for n in range(400)],
    ],
    ids=["descending", "joined the wrong way round", "two rows", "shuffled"],
)
def test_an_unsorted_file_is_no_restart(tmp_path: Path, steps: list[int]) -> None:
    curve = only(csv_file(tmp_path / "a.csv", "step,score", [(step, step / 1000) for step in steps]))
    assert noted(curve, "points sorted by x")
    assert not noted(curve, "restarted")
    assert curve.x.tolist() == sorted(steps)


def test_a_compute_axis_that_goes_back_is_a_restart(tmp_path: Path) -> None:
    rows = [(0.11, 1), (0.22, 2), (0.33, 3), (0.44, 4), (0.25, 9), (0.37, 9)]
    assert points(only(csv_file(tmp_path / "a.csv", "gpu_hours,score", rows))) == [
        (0.11, 1),
        (0.22, 2),
        (0.25, 9),
        (0.37, 9),
    ]


def test_training_rows_show_the_restart_that_evaluations_hide(tmp_path: Path) -> None:
    def attempt(first: int, last: int, score: float) -> list[dict[str, float]]:
        rows: list[dict[str, float]] = []
        for step in range(first, last):
            rows.append({"step": step, "loss": 1.0})
            rows += [{"step": step, "eval_reward": score}] if step % 5 == 0 else []
        return rows

    curve = only(jsonl(tmp_path / "a.jsonl", attempt(0, 12, 0.5) + attempt(8, 20, 0.7)))
    assert points(curve) == [(0, 0.5), (5, 0.5), (10, 0.7), (15, 0.7)]
    assert noted(curve, "restarted at step 8: 1 earlier scores replaced")


def test_an_evaluation_that_comes_late_starts_nothing(tmp_path: Path) -> None:
    rows: list[dict[str, float]] = []
    for step in range(30):
        rows.append({"step": step, "reward": 0.1})
        rows += [{"step": step - 3, "eval_reward": 0.5}] if step % 10 == 3 else []
    curve = only(jsonl(tmp_path / "a.jsonl", rows))
    assert points(curve) == [(0, 0.5), (10, 0.5), (20, 0.5)]
    assert not noted(curve, "restarted")
    assert only(tmp_path / "a.jsonl", y="reward").x.size == 30


def test_an_evaluation_before_the_first_step_of_the_new_attempt_stays(tmp_path: Path) -> None:
    train = [{"step": step, "reward": 0.0} for step in range(1, 9)]
    rows = [
        *train,
        {"step": 8, "eval_reward": 0.8},
        {"step": 4, "eval_reward": 0.4},
        *train[3:],
        {"step": 8, "eval_reward": 0.9},
    ]
    assert points(only(jsonl(tmp_path / "a.jsonl", rows))) == [(4, 0.4), (8, 0.9)]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(3, 40)), min_size=1, max_size=6))
def test_spliced_attempts_leave_each_step_once_with_its_newest_score(attempts: list[tuple[int, int]]) -> None:
    rows, truth, reached = [], {}, 0
    for number, (first, length) in enumerate(attempts):
        start = first if first < reached else reached + 1
        truth = {step: score for step, score in truth.items() if step < start}
        for step in range(start, start + length):
            rows.append((step, number))
            truth[step] = number
        reached = start + length - 1
    with tempfile.TemporaryDirectory() as folder:
        curve = only(csv_file(Path(folder) / "a.csv", "step,score", rows))
    assert points(curve) == sorted(truth.items())
