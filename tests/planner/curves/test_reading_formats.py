import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.curves.files import read_curves, read_table
from tests.planner.curves.reading_samples import (
    csv_file,
    events,
    jsonl,
    noted,
    only,
    points,
    tensor_events,
    trainer_state,
    write,
)

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


@pytest.mark.parametrize(
    ("text", "expected", "note"),
    [
        ('\n"step","my, score"\n"1","0.1"\n\n2,0.2\n', [(1, 0.1), (2, 0.2)], "the score is 'my, score'"),
        ("step;score\n1;0,25\n2;0,5\n", [(1, 0.25), (2, 0.5)], ""),
        ("step,score\n3,0.5\n", [(3, 0.5)], ""),
        ("step,passed\n1,FALSE\n2,true\n", [(1, 0), (2, 1)], ""),
        ("step,score\n1,0.1\n2,\n3,nan\n4,inf\n5,N/A\n6,0.2\n", [(1, 0.1), (6, 0.2)], "1 points dropped: not finite"),
        (
            "step,score,kl\n1,0.1,1\n2,0.2\n3,0.3,1,9\n",
            [(1, 0.1), (2, 0.2), (3, 0.3)],
            "2 rows have more or fewer cells",
        ),
        ("step,score,score\n1,0.1,9\n2,0.2,9\n", [(1, 0.1), (2, 0.2)], "'score' occurs twice"),
    ],
)
def test_cells_as_people_and_programs_write_them(
    tmp_path: Path, text: str, expected: list[tuple[float, float]], note: str
) -> None:
    curve = only(write(tmp_path / "a.csv", text))
    assert points(curve) == expected
    assert noted(curve, note)


def test_cells_that_are_no_numbers_and_scores_without_a_step_are_counted(tmp_path: Path) -> None:
    rows = [(step, 0.1 if step != 7 else "oops") for step in range(20)]
    curve = only(csv_file(tmp_path / "a.csv", "gpu_hours,score", [*rows, ("", 0.3)]), x="gpu_hours")
    assert noted(curve, "1 cells of 'score' are no numbers")
    assert noted(curve, "1 scores dropped: no gpu_hours")


def test_the_suffix_does_not_decide_the_format(tmp_path: Path) -> None:
    assert read_table(jsonl(tmp_path / "a.csv", [{"step": 1, "reward": 0.5}]))[0].columns.keys() == {"step", "reward"}
    assert read_table(write(tmp_path / "a.json", "step,score\n1,2\n"))[0].columns.keys() == {"step", "score"}


# --- JSON -----------------------------------------------------------------------------------------------------------


def test_verl_rows(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"step": 0, "data": {"val-core/gsm8k/reward/mean@1": 0.1}}]
    for step in (1, 2, 3):
        data = {"training/global_step": step, "critic/score/mean": 5.0, "actor": {"entropy": 0.3}}
        rows.append({"step": step, "data": data | ({"val-core/gsm8k/reward/mean@1": 0.2} if step == 2 else {})})
    path = jsonl(tmp_path / "verl.jsonl", rows)
    assert points(only(path)) == [(0, 0.1), (2, 0.2)]
    named = only(path, x="GLOBAL_STEP", y="critic/score/mean")
    assert points(named) == [(1, 5), (2, 5), (3, 5)]
    assert not noted(named, "guessed")
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


CUT = '{"step": 1, "reward": NaN}\n{"step": 2, "reward": 0.5}\n{"step": 3, "rew'


@pytest.mark.parametrize(
    ("text", "expected", "note"),
    [
        ('[{"foo/step": 1, "eval/x/avg@4": 0.5}, {"foo/step": 2, "eval/x/avg@4": 0.5}]', [(1, 0.5), (2, 0.5)], ""),
        (
            '[{"time/step": 9, "a/step": 1, "reward": 0}, {"time/step": 8, "a/step": 2, "reward": 1}]',
            [(1, 0), (2, 1)],
            "",
        ),
        (CUT, [(2, 0.5)], "1 broken line left out (the first is line 3)"),
        ('{"step": 1, "reward": 1' + "0" * 400 + '}\n{"step": 2, "reward": true}\n', [(2, 1)], ""),
    ],
    ids=["a counter with a path", "a duration is no step", "cut off in the middle", "beyond floats"],
)
def test_rows_of_json(tmp_path: Path, text: str, expected: list[tuple[float, float]], note: str) -> None:
    curve = only(write(tmp_path / "a.json", text))
    assert points(curve) == expected
    assert noted(curve, note)


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
    assert points(only(path, y="reward")) == [(10, 0.2), (20, 0.3)]  # of its steps, not of its tokens
    assert points(only(path, y="reward", x="num_tokens")) == [(500, 0.2), (1000, 0.3)]


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
    (curve,) = read_curves(write(tmp_path / "e.csv", "Step,a - score,b - loss\n1,0.1,\n2,0.2,0.9"))
    assert curve.name == "a"
    assert noted(curve, "1 of 2 runs left out: no column of 'b'")


# --- TensorBoard ----------------------------------------------------------------------------------------------------


def test_event_files(tmp_path: Path) -> None:
    scalars = [(100.0 + 10 * step, step, "train/reward", 0.5) for step in range(4)]
    scalars += [(102.0, 0, "eval/score", 0.25), (135.0, 3, "eval/score", 0.75)]
    folder = events(tmp_path / "tb", sorted(scalars))
    (table,) = read_table(folder)
    assert table.columns["step"].tolist() == [0, 1, 2, 3]
    assert table.columns["seconds"].tolist() == [0, 10, 20, 30]
    curve = only(folder)
    assert points(curve) == [(0, 0.25), (3, 0.75)]
    assert points(only(folder, x="seconds")) == [(0, 0.25), (30, 0.75)]
    assert curve.name == "tb"
    (file,) = folder.iterdir()
    assert points(only(file, x="step", y="train/reward")) == [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5)]


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


def test_every_whole_event_counts_however_many_of_a_step_there_are(tmp_path: Path) -> None:
    rows = [(float(at), at // 2, "score", at % 2 / 2) for at in range(1500)]
    folder = events(tmp_path, rows)
    curve = only(folder, x="step")
    assert points(curve)[:4] == [(0, 0), (0, 0.5), (1, 0), (1, 0.5)]
    assert curve.x.size == 1500
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert only(folder, x="step").x.size == 1499
    with pytest.raises(InputError, match="must contain 'tfevents'"):
        read_curves(file.rename(tmp_path / "log.bin"))


def test_event_files_further_down_are_one_curve_a_folder(tmp_path: Path) -> None:
    for run in ("a", "b"):
        events(tmp_path / "runs" / run, [(1.0, 1, "score", 0.25), (2.0, 2, "score", 0.5)])
    assert [curve.name for curve in read_curves(tmp_path / "runs")] == ["runs/a", "runs/b"]


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


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"step,score\n", r"a\.csv' holds a header but no rows"),
        ("s.sh", b"python train.py --n 8\n", r"`rlplan check .*s\.sh` reads a script"),
        ("a.csv", b"1,2,3\n4,5,6\n", "must name the columns"),
        (
            "a.csv",
            b"step,score\n1,\n2,\n",
            "column 'score' of 'a' holds no finite number: .* with --y NAME",
        ),
        ("a.csv", b"step,score\n1,0.1\n2,x\n", "column 'score' of 'a' holds 'x', which is no number: mend that, or"),
        ("a.csv", b"just some words\nand more\n", r"columns of numbers are \(none\)"),
        ("a.csv", b"step,score\n1,\xff\n", "not UTF-8"),
        ("a.bin", bytes(range(256)) * 20, "not UTF-8"),
        ("a.csv", b'step,score\n1,"' + b"x" * 200_000, "is not a table: line 2"),
        ("events.out.tfevents.1.host", b"", "is empty"),
        ("events.out.tfevents.1.host", bytes(range(256)) * 20, "no scalars"),
        ("trainer_state.json", b'{"log_history": []}', "log is empty"),
        ("config.json", b'{\n"lr": 1\n}', "neither a trainer_state"),
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
