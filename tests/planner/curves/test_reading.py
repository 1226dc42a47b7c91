import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError, UnknownNameError
from planner.curves.curve import Curve
from planner.curves.reading import read_curves, read_table
from tests.planner.curves.reading_samples import csv_file, events, jsonl, tensor_events, trainer_state, write


def only(path: Path, **named: str | bool) -> Curve:
    (curve,) = read_curves(path, **named)  # type: ignore[arg-type]
    return curve


def points(curve: Curve) -> list[tuple[float, float]]:
    return list(zip(curve.x.tolist(), curve.y.tolist(), strict=True))


def noted(curve: Curve, part: str) -> bool:
    return any(part in note for note in curve.notes)


# --- delimited text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_contract_csv_is_read_without_names(tmp_path: Path, mark: str, end: str, bom: str) -> None:
    header = bom + mark.join(["step", "compute", "metric"])
    path = csv_file(tmp_path / "a.csv", header, [(0, 0, 0.1), (5, 2.5, 0.2), (10, 5, 0.4)], mark=mark, end=end)
    curve = only(path)
    assert points(curve) == [(0, 0.1), (2.5, 0.2), (5, 0.4)]
    assert curve.name == "a"
    assert curve.bounded
    assert noted(curve, "x is 'compute'")
    assert noted(curve, "score is 'metric'")


@pytest.mark.parametrize("compute", [("", "", ""), (1, "", 3), (3, 2, 1), (7, 7, 7)])
def test_x_is_the_step_where_compute_is_not_a_total_for_every_score(
    tmp_path: Path, compute: tuple[object, ...]
) -> None:
    rows = [(step, spent, step / 10) for step, spent in zip((1, 2, 3), compute, strict=True)]
    assert only(csv_file(tmp_path / "a.csv", "step,compute,metric", rows)).x.tolist() == [1, 2, 3]


def test_quoted_cells_and_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '\n"step","my, score"\n"1","0.1"\n\n2,0.2\n')
    assert points(only(path)) == [(1, 0.1), (2, 0.2)]


def test_decimal_commas_between_semicolons(tmp_path: Path) -> None:
    assert points(only(write(tmp_path / "a.csv", "step;score\n1;0,25\n2;0,5\n"))) == [(1, 0.25), (2, 0.5)]


def test_the_suffix_does_not_decide_the_format(tmp_path: Path) -> None:
    assert read_table(jsonl(tmp_path / "a.csv", [{"step": 1, "reward": 0.5}]))[0].source_format == "jsonl"
    assert read_table(write(tmp_path / "a.json", "step,score\n1,2\n"))[0].source_format == "csv"


def test_columns_named_by_hand(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "step,Tokens,score,other", [(1, 10, 0.1, 5), (2, 20, 0.2, 6)])
    curve = only(path, x="tokens", y="OTHER")
    assert points(curve) == [(10, 5), (20, 6)]
    assert not noted(curve, "guessed")


def test_blank_and_infinite_cells(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "step,score", [(1, 0.1), (2, ""), (3, "nan"), (4, "inf"), (5, "N/A"), (6, 0.2)])
    curve = only(path)
    assert points(curve) == [(1, 0.1), (6, 0.2)]
    assert noted(curve, "1 points dropped: not finite")


def test_cells_that_are_no_numbers_are_counted(tmp_path: Path) -> None:
    rows = [(step, 0.1 if step != 7 else "oops") for step in range(20)]
    assert noted(only(csv_file(tmp_path / "a.csv", "step,score", rows)), "1 cells of 'score' are no numbers")


def test_ragged_rows_are_counted(tmp_path: Path) -> None:
    curve = only(write(tmp_path / "a.csv", "step,score,kl\n1,0.1,1\n2,0.2\n3,0.3,1,9\n"))
    assert points(curve) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert noted(curve, "2 rows have more or fewer cells")


def test_a_name_that_occurs_twice_means_the_first(tmp_path: Path) -> None:
    curve = only(csv_file(tmp_path / "a.csv", "step,score,score", [(1, 0.1, 9), (2, 0.2, 9)]))
    assert points(curve) == [(1, 0.1), (2, 0.2)]
    assert noted(curve, "'score' occurs twice")


def test_a_file_longer_than_one_chunk(tmp_path: Path) -> None:
    rows = ((step, "" if step < 60_000 else step / 1e6) for step in range(120_000))
    curve = only(csv_file(tmp_path / "a.csv", "step,score", rows))
    assert curve.x.size == 60_000
    assert curve.x[[0, -1]].tolist() == [60_000, 119_999]


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


# --- JSON -----------------------------------------------------------------------------------------------------------


def test_verl_rows(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"step": 0, "data": {"val-core/gsm8k/reward/mean@1": 0.1}}]
    for step in (1, 2, 3):
        data = {"training/global_step": step, "critic/score/mean": 5.0, "actor": {"entropy": 0.3}}
        rows.append({"step": step, "data": data | ({"val-core/gsm8k/reward/mean@1": 0.2} if step == 2 else {})})
    path = jsonl(tmp_path / "verl.jsonl", rows)
    assert points(only(path)) == [(0, 0.1), (2, 0.2)]
    assert points(only(path, x="global_step", y="critic/score/mean")) == [(1, 5), (2, 5), (3, 5)]
    assert set(read_table(path)[0].columns) >= {"step", "training/global_step", "actor/entropy"}


def test_prime_rl_metrics_take_x_from_the_training_row_of_the_same_step(tmp_path: Path) -> None:
    rows: list[dict[str, float]] = []
    for step in range(6):
        rows.append({"step": step, "progress/total_tokens": 1000.0 * (step + 1), "reward/all/mean": 0.9})
        rows += [{"step": step, "eval/math500/avg@8": 0.1 * step}] if step % 2 == 0 else []
    curve = only(jsonl(tmp_path / "run7" / "metrics.jsonl", rows))
    assert curve.name == "run7"
    assert curve.x.tolist() == [1000, 3000, 5000]
    assert curve.y == pytest.approx([0, 0.2, 0.4])


def test_a_step_counter_with_a_path(tmp_path: Path) -> None:
    rows = [{"progress/step": step, "eval/x/avg@4": 0.5} for step in (1, 2)]
    assert only(jsonl(tmp_path / "a.jsonl", rows)).x.tolist() == [1, 2]


def test_a_duration_is_not_taken_for_the_step(tmp_path: Path) -> None:
    rows = [{"time/step": 9.5, "foo/step": step, "reward": 0.5} for step in (1, 2, 3)]
    assert only(jsonl(tmp_path / "a.jsonl", rows)).x.tolist() == [1, 2, 3]


def test_flat_rows_of_several_runs(tmp_path: Path) -> None:
    rows = [{"run": run, "step": step, "score": 0.5} for step in (1, 2) for run in ("p", "q")]
    assert [curve.name for curve in read_curves(jsonl(tmp_path / "a.jsonl", rows))] == ["a/p", "a/q"]


def test_a_line_cut_off_in_the_middle_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"step": 1, "reward": NaN}\n{"step": 2, "reward": 0.5}\n{"step": 3, "rew')
    curve = only(path)
    assert points(curve) == [(2, 0.5)]
    assert noted(curve, "1 broken lines left out (the first is line 3)")


def test_scores_without_a_step_are_counted(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "gpu_hours,score", [(1, 0.1), (2, 0.2), ("", 0.3)])
    assert noted(only(path, x="gpu_hours"), "1 scores dropped: no gpu_hours")


def test_a_number_beyond_floats_is_infinite(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"step": 1, "reward": 1' + "0" * 400 + '}\n{"step": 2, "reward": true}\n')
    assert points(only(path)) == [(2, 1)]


def test_a_json_list_of_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps([{"step": 1, "score": 0.5}, {"step": 2, "score": 0.6}]))
    assert points(only(path)) == [(1, 0.5), (2, 0.6)]


LOG = [
    {"step": 0, "epoch": 0.0, "eval_reward": 0.05, "eval_runtime": 1.0},
    {"step": 10, "epoch": 0.1, "loss": 1.0, "reward": 0.2, "reward_std": 0.1, "num_tokens": 500.0},
    {"step": 20, "epoch": 0.2, "loss": 0.9, "reward": 0.3, "reward_std": 0.1, "num_tokens": 1000.0},
    {"step": 20, "epoch": 0.2, "eval_reward": 0.25, "eval_runtime": 1.0},
    {"step": 20, "epoch": 0.2, "train_runtime": 99.0, "train_loss": 0.95},
]


def test_a_trainer_state(tmp_path: Path) -> None:
    path = trainer_state(tmp_path / "out" / "checkpoint-20" / "trainer_state.json", LOG)
    curve = only(path)
    assert curve.name == "out"
    assert points(curve) == [(0, 0.05), (20, 0.25)]
    assert points(only(path, y="reward")) == [(500, 0.2), (1000, 0.3)]


# --- Weights & Biases -----------------------------------------------------------------------------------------------


def test_a_panel_export_is_one_curve_a_run(tmp_path: Path) -> None:
    header = ",".join(
        f'"{name}"' for name in ("Step", "a - b - val/x", "a - b - val/x__MIN", "a - b - val/x__MAX", "c - val/x")
    )
    rows = ["1,0.1,0,1,", "2,0.2,0,1,0.7", "3,,,,0.8"]
    first, second = read_curves(write(tmp_path / "export.csv", "\n".join([header, *rows])))
    assert (first.name, second.name) == ("a - b", "c")
    assert points(first) == [(1, 0.1), (2, 0.2)]
    assert points(second) == [(2, 0.7), (3, 0.8)]


def test_runs_of_an_export_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    rows = ["1,0.1,", "2,0.2,0.9"]
    (curve,) = read_curves(write(tmp_path / "e.csv", "\n".join(["Step,a - score,b - loss", *rows])))
    assert curve.name == "a"
    assert noted(curve, "1 of 2 runs left out: no column of 'b'")


# --- TensorBoard ----------------------------------------------------------------------------------------------------


def test_event_files(tmp_path: Path) -> None:
    scalars = [(100.0 + 10 * step, step, "train/reward", 0.5) for step in range(4)]
    scalars += [(102.0, 0, "eval/score", 0.25), (135.0, 3, "eval/score", 0.75)]
    folder = events(tmp_path / "tb", sorted(scalars))
    (table,) = read_table(folder)
    assert table.source_format == "tensorboard"
    assert table.columns["step"].tolist() == [0, 1, 2, 3]
    assert table.columns["seconds"].tolist() == [0, 10, 20, 30]
    curve = only(folder)
    assert points(curve) == [(0, 0.25), (30, 0.75)]
    assert curve.name == "tb"
    (file,) = folder.iterdir()
    assert points(only(file, x="step", y="train/reward")) == [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5)]


def test_more_events_than_tensorboard_shows(tmp_path: Path) -> None:
    folder = events(tmp_path, [(float(step), step, "reward", 0.5) for step in range(1500)])
    assert only(folder).x.size == 1500


def test_a_restarted_event_log_is_spliced_without_its_pause(tmp_path: Path) -> None:
    def attempt(start: float, first: int, last: int, score: float) -> list[tuple[float, int, str, float]]:
        rows = [(start + 10 * (step - first), step, "reward", score) for step in range(first, last)]
        return rows + [(start + 10 * (step - first) + 1, step, "eval/score", score) for step in range(first, last, 4)]

    events(tmp_path, sorted(attempt(0, 0, 10, 0.25)), suffix=".1")
    events(tmp_path, sorted(attempt(9000, 6, 14, 0.5)), suffix=".2")
    curve = only(tmp_path, x="step", y="reward")
    assert curve.y.tolist() == [0.25] * 6 + [0.5] * 8
    assert noted(curve, "restarted at step 6")
    assert points(only(tmp_path, x="step", y="eval/score")) == [(0, 0.25), (4, 0.25), (6, 0.5), (10, 0.5)]
    assert only(tmp_path, x="seconds", y="reward").x[-1] < 200


def test_scores_that_tensorflow_wrote_as_tensors(tmp_path: Path) -> None:
    assert points(only(tensor_events(tmp_path, "score", [0.25, 0.5]), x="step")) == [(0, 0.25), (1, 0.5)]


def test_a_tag_reported_twice_at_a_step_is_kept_twice(tmp_path: Path) -> None:
    rows = [(1.0, 1, "score", 0.25), (2.0, 1, "score", 0.5), (3.0, 2, "score", 0.75)]
    assert points(only(events(tmp_path, rows), x="step")) == [(1, 0.25), (1, 0.5), (2, 0.75)]


def test_an_event_log_cut_off_in_the_middle(tmp_path: Path) -> None:
    folder = events(tmp_path, [(float(step), step, "score", 0.5) for step in range(10)])
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert only(folder, x="step").x.size == 9


def test_event_files_further_down_are_one_curve_a_folder(tmp_path: Path) -> None:
    for run in ("a", "b"):
        events(tmp_path / "runs" / run, [(1.0, 1, "score", 0.25), (2.0, 2, "score", 0.5)])
    assert [curve.name for curve in read_curves(tmp_path / "runs")] == ["runs/a", "runs/b"]


def test_an_event_file_under_another_name(tmp_path: Path) -> None:
    (file,) = events(tmp_path, [(1.0, 1, "score", 0.25)]).iterdir()
    renamed = file.rename(tmp_path / "log.bin")
    with pytest.raises(InputError, match="must contain 'tfevents'"):
        read_curves(renamed)


# --- directories ----------------------------------------------------------------------------------------------------


def test_the_newest_checkpoint_is_read(tmp_path: Path) -> None:
    for steps in (500, 1000, 90):
        trainer_state(tmp_path / f"checkpoint-{steps}" / "trainer_state.json", [{"step": 1, "reward": steps}])
    (tmp_path / "checkpoint-last").mkdir()
    assert only(tmp_path).y.tolist() == [1000]


def test_the_one_log_of_a_directory_is_read(tmp_path: Path) -> None:
    jsonl(tmp_path / "run" / "rows.jsonl", [{"step": 1, "reward": 0.5}])
    write(tmp_path / "run" / "notes.txt", "x")
    assert points(only(tmp_path / "run")) == [(1, 0.5)]
    with pytest.raises(InputError, match=r"logs further down: .*rows\.jsonl; give one"):
        read_curves(tmp_path)
    csv_file(tmp_path / "run" / "b.csv", "step,score", [(1, 1)])
    with pytest.raises(InputError, match=r"several logs: b\.csv, rows\.jsonl; give one"):
        read_curves(tmp_path / "run")
    jsonl(tmp_path / "run" / "metrics.jsonl", [{"step": 1, "reward": 0.75}])
    assert points(only(tmp_path / "run")) == [(1, 0.75)]


# --- what cannot be read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\xef\xbb\xbf \r\n\n", "is empty"),
        ("a.csv", b"step,score\n", "no rows"),
        ("a.csv", b"step,score\n\n\n", "no rows"),
        ("a.csv", b"1,2,3\n4,5,6\n", "must name the columns"),
        ("a.csv", b"step,score\n1,\n2,\n", "--y NAME"),
        ("a.csv", b"step,score\n1,low\n2,high\n", "columns of numbers are step"),
        ("a.csv", b"score\n0.1\n0.2\n", "x axis"),
        ("a.csv", b"just some words\nand more\n", r"columns of numbers are \(none\)"),
        ("a.csv", b"step,score\n1,\xff\n", "not UTF-8"),
        ("a.csv", "step,score\n1,2\n".encode("utf-16"), "not UTF-8"),
        ("a.bin", bytes(range(256)) * 20, "not UTF-8"),
        ("a.csv", b'step,score\n1,"' + b"x" * 200_000, "is not a table: line 2"),
        ("events.out.tfevents.1.host", b"", "is empty"),
        ("events.out.tfevents.1.host", bytes(range(256)) * 20, "no scalars"),
        ("trainer_state.json", b'{"log_history": []}', "log is empty"),
        ("config.json", b'{\n"lr": 1\n}', "neither a trainer_state"),
        ("a.json", b"[1, 2, 3]", "neither a trainer_state"),
        ("a.jsonl", b"{step: 1}\n{step: 2}\n", "line 1 is no JSON object"),
        ("a.jsonl", b'{"a":' * 100_000, "line 1 is no JSON object"),
        ("a.jsonl", b'{"note": "hello"}\n', r"columns of numbers are \(none\)"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_curves(path)


def test_paths_without_a_file_behind_them(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        read_curves(tmp_path / "gone.csv")
    with pytest.raises(InputError, match="holds no learning curve"):
        read_curves(tmp_path)
    with pytest.raises(InputError, match="not a regular file"):
        read_curves(Path("/dev/null"))


def test_a_file_that_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = csv_file(tmp_path / "a.csv", "step,score", [(1, 2)])
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"cannot be read: Permission denied"):
        read_curves(path)


def test_one_row_is_a_curve_of_one_point(tmp_path: Path) -> None:
    assert points(only(csv_file(tmp_path / "a.csv", "step,score", [(3, 0.5)]))) == [(3, 0.5)]


def test_a_score_column_without_numbers(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "step,score,val", [(1, 0.1, ""), (2, 0.2, "")])
    with pytest.raises(InputError, match="'val' of 'a' holds no numbers"):
        read_curves(path, y="val")


@settings(max_examples=60)
@given(
    st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)),
    st.sampled_from([b"", b"step,score\n", b"{"]),
)
def test_any_bytes_give_curves_or_a_refusal(content: bytes, start: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(start + content)
        try:
            curves, refusal = read_curves(path), ""
        except InputError as error:
            curves, refusal = [], str(error)
    assert curves or str(path) in refusal or "'a'" in refusal
    assert all(np.isfinite(curve.x).all() and np.isfinite(curve.y).all() for curve in curves)


def test_importing_the_readers_leaves_tensorboard_alone() -> None:
    program = "import planner.curves.reading, sys; print('tensorboard' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
