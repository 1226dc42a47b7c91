from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.replay.table import ReadTable, read_recorded
from planner.view import Configuration

HEADER = "run,rollouts_per_prompt,prompts_per_batch,seed,gpu_hours,score"
A, B = ("a,8,4,0,0,0.1", "a,8,4,0,1,0.2"), ("b,16,4,0,0,0.1", "b,16,4,0,2,0.3")


def read(folder: Path, header: str, *rows: str) -> ReadTable:
    path = folder / "runs.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return read_recorded(path)


def test_a_plain_table(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER, *A, *B)
    first, second = result.recorded.runs
    assert (first.name, first.configuration, first.seed) == ("a", Configuration(8, 4), 0)
    assert (second.gpu_hours.tolist(), second.scores.tolist()) == ([0, 2], [0.1, 0.3])
    assert first.standard_errors is None
    assert (result.axes, result.notes) == ((), ())
    mixed = read(tmp_path, HEADER, B[1], A[1], B[0], A[0])
    assert {run.name: run.gpu_hours.tolist() for run in mixed.recorded.runs} == {"b": [0, 2], "a": [0, 1]}


@pytest.mark.parametrize("name", ["standard_error", "score_standard_error"])
def test_standard_errors_count_where_all_scores_have_one(tmp_path: Path, name: str) -> None:
    result = read(tmp_path, f"{HEADER},{name}", A[0] + ",0.01", A[1] + ",0.02", B[0] + ",0.01", B[1] + ",")
    first, second = (run.standard_errors for run in result.recorded.runs)
    assert first is not None
    assert (first.tolist(), second) == ([0.01, 0.02], None)
    assert result.axes == ()


def test_columns_that_tell_runs_apart_are_axes_and_those_that_change_within_are_not(tmp_path: Path) -> None:
    header = HEADER + ",recipe,rate,step,loss,task"
    rows = [
        *("a,8,4,0,0,0.1,grpo,0.5,0,9,sums", "a,8,4,0,1,0.2,grpo,0.5,5,8,sums"),
        *("b,8,4,0,1,0.3,scalerl,0.5,5,9,sums", "c,8,4,0,1,0.3,scalerl,2,5,9,sums"),
    ]
    result = read(tmp_path, header, *rows)
    assert result.axes == ("rate", "recipe")
    assert [run.configuration for run in result.recorded.runs] == [
        Configuration(8, 4, (("rate", 0.5), ("recipe", "grpo"))),
        Configuration(8, 4, (("rate", 0.5), ("recipe", "scalerl"))),
        Configuration(8, 4, (("rate", 2.0), ("recipe", "scalerl"))),
    ]
    blank = read(tmp_path, HEADER + ",kl", *(row + ",0.1" for row in A), *(row + "," for row in B))
    assert [run.configuration.axes for run in blank.recorded.runs] == [(("kl", 0.1),), ()]


def test_a_name_that_every_run_has_for_itself_makes_no_configuration_of_each_seed(tmp_path: Path) -> None:
    rows = ["a,8,4,0,1,0.1,x1", "b,8,4,1,1,0.2,x2", "c,16,4,0,1,0.3,x3"]
    result = read(tmp_path, HEADER + ",folder", *rows)
    assert len(result.recorded.configurations) == 2
    assert "column 'folder' has another value in every run" in result.notes[0]
    searched = read(tmp_path, HEADER + ",rate", "a,8,4,0,1,0.1,1", "b,8,4,0,1,0.2,2", "c,8,4,0,1,0.3,3")
    assert searched.axes == ("rate",)


def test_rows_without_a_score_are_left_out_and_told_and_so_are_scores_of_no_pass_rate(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER, *A, "a,8,4,0,0.5,", *B, "b,16,4,0,3,nan", "b,16,4,0,4,-2")
    assert [run.gpu_hours.size for run in result.recorded.runs] == [2, 3]
    assert result.notes[0] == "run 'a': 1 of 3 rows have no score and are left out"
    assert "outside of 0 to 1 in b" in result.notes[-1]


@pytest.mark.parametrize(
    ("header", "rows", "says"),
    [
        (HEADER[:-6], ["a,8,4,0,1"], r"has no column score: a table of runs has run, .*standard_error"),
        (HEADER, ["a,8,4,0,1,0.1", "a,8,4,0,,0.2"], r"run 'a': gpu_hours is missing or not a number \(line 3\)"),
        (HEADER, [*A, "a,8,4,0,1,0.3"], r"gpu_hours 1 occurs twice \(lines 3 and 4\): keep one row of each"),
        (HEADER, ["a,8,4,0,1,", *B], r"run 'a' has no score \(lines 2 to 2\)"),
        (HEADER, ["a,8,4,0,1,good"], r"run 'a': score holds text"),
        (HEADER, ["a,8,4,0,1,0.1", "a,16,4,0,2,0.1"], r"rollouts_per_prompt changes within the run.*\(line 3\)"),
        (HEADER, ["a,8,0,0,1,0.1"], r"prompts_per_batch must be whole and ≥ 1 \(line 2\)"),
        (HEADER, ["a,8,4,x,1,0.1"], r"run 'a': seed holds text"),
        (HEADER, [*A, ",8,4,0,1,0.1"], r"run is empty \(line 4\)"),
        (HEADER + ",standard_error", ["a,8,4,0,1,0.1,-0.1"], r"standard_error is below 0 \(line 2\)"),
        (HEADER, list(A), r"holds one configuration, n = 8, B = 4: there is nothing to choose between"),
        (HEADER, [], "holds a header but no rows"),
    ],
)
def test_a_table_that_cannot_be_used_says_where_and_why(
    tmp_path: Path, header: str, rows: list[str], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        read(tmp_path, header, *rows)
