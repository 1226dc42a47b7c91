"""Runs of experiment trackers, read without them; the bytes of W&B's are laid out as its library writes them."""

import json
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.curves.files import read_curves, read_table
from tests.planner.curves.reading_samples import csv_file, jsonl, noted, only, points, write

# --- one score among many, one axis among many ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("val-core/gsm8k/acc/mean@8", "critic/score/mean"),
        ("val-core/gsm8k/acc/mean@8", "val-core/gsm8k/acc/best@8/mean"),
        ("eval/math500/avg@8", "train/reward"),
        ("eval_reward", "eval_reward_std"),
        ("val:accuracy", "reward"),
        ("critic/score/mean", "critic/rewards/mean"),
        ("eval_reward", "train/score"),
        ("mine/score", "mine/std"),
        ("anything", "loss"),
    ],
)
def test_validation_is_preferred_to_training(tmp_path: Path, better: str, worse: str) -> None:
    rows = [{"step": step, worse: 5.0 + step, better: step / 10} for step in (1, 2, 3)]
    assert only(jsonl(tmp_path / "a.jsonl", rows)).y.tolist() == [0.1, 0.2, 0.3]


def test_scores_of_equal_standing_are_for_a_person_to_choose(tmp_path: Path) -> None:
    rows = [{"step": step, "eval/aime/avg@8": 0.1, "eval/math/avg@8": 0.5} for step in (1, 2)]
    path = jsonl(tmp_path / "a.jsonl", rows)
    with pytest.raises(InputError, match=r"several scores: eval/aime/avg@8, eval/math/avg@8; choose one with --y"):
        read_curves(path)
    assert only(path, y="math/avg@8").y.tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="fits several columns"):
        read_curves(path, y="avg@8")


WIDE = ",".join(f"c{number}" for number in range(30))
NAMED = "step,when,score,val/accuracy"


@pytest.mark.parametrize(
    ("header", "row", "named", "says"),
    [
        (WIDE, range(30), {}, r"c0, c1,.*c19 and 10 more\. Name them with --x NAME --y NAME"),
        ("step,train_loss", (1, 2), {}, "--y NAME"),
        ("score,foo,bar", (0.1, 1, 1), {}, "x axis"),
        (NAMED, (1, "monday", 2, 3), {"y": "acuracy"}, r"unknown column 'acuracy': did you mean 'val/accuracy'"),
        (NAMED, (1, "monday", 2, 3), {"x": "zzz"}, r"known are score, step.* Name a column of 'a' with --x"),
        (NAMED, (1, "monday", 2, 3), {"x": "when"}, "'when' of 'a' holds text"),
        ("step,score,val", (1, 0.1, ""), {"y": "val"}, "'val' of 'a' holds no numbers"),
    ],
)
def test_a_column_that_cannot_be_found_is_named_with_what_there_is(
    tmp_path: Path, header: str, row: Sequence[object], named: dict[str, str], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        read_curves(csv_file(tmp_path / "a.csv", header, [row] * 3), **named)


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
    alone = csv_file(tmp_path / "c.csv", f"{clock},score", [(30, 0.1), (60, 0.2)])
    assert only(alone).x.tolist() == [30, 60]


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


def test_runs_are_split_by_the_columns_given(tmp_path: Path) -> None:
    rows = [(n, k, step, n / 100) for n in (8, 16) for k in (0, 1) for step in (1, 2)]
    path = csv_file(tmp_path / "a.csv", "n,seed,step,quality", [*rows, ("", 0, 3, 0.3)])
    four = read_curves(path, by="n,seed")
    assert [curve.name for curve in four] == ["a/n=8,seed=0", "a/n=8,seed=1", "a/n=16,seed=0", "a/n=16,seed=1"]
    assert points(four[0]) == [(1, 0.08), (2, 0.08)]
    assert noted(four[0], "1 scores dropped: no n,seed")
    many = csv_file(tmp_path / "b.csv", "id,step,score", [(n, n, 0.5) for n in range(10_001)])
    with pytest.raises(InputError, match="would make 10001 curves"):
        read_curves(many, by="id")


def test_runs_are_split_by_an_obvious_column_when_steps_repeat(tmp_path: Path) -> None:
    header = "run,rollouts_per_prompt,prompts_per_batch,seed,gpu_hours,score"
    rows = [(f"{n}-{k}", n, 64, k, n * s * 0.11, 0.1 * s) for n in (8, 16) for k in (0, 1) for s in (1, 2, 3)]
    curves = read_curves(csv_file(tmp_path / "a.csv", header, rows))
    assert [curve.name for curve in curves] == ["a/8-0", "a/8-1", "a/16-0", "a/16-1"]
    assert all(curve.x.size == 3 and noted(curve, "split by run") for curve in curves)
    alone = csv_file(tmp_path / "b.csv", "run_id,step,score", [("a", 1, 0.1), ("a", 2, 0.2), ("b", 3, 0.3)])
    assert only(alone).x.size == 3


def test_interleaved_runs_and_one_that_restarted(tmp_path: Path) -> None:
    rows = [("x", 1, 0.1), ("y", 1, 0.5), ("x", 2, 0.9), ("x", 3, 0.9), ("y", 2, 0.6), ("x", 2, 0.2), ("x", 3, 0.3)]
    first, second = read_curves(csv_file(tmp_path / "a.csv", "run,step,score", rows))
    assert points(first) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert noted(first, "restarted at step 2")
    assert points(second) == [(1, 0.5), (2, 0.6)]


@pytest.mark.parametrize(
    ("header", "rows", "flag"),
    [
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


def test_a_measurement_with_few_values_does_not_tell_curves_apart(tmp_path: Path) -> None:
    rows = [(step, step % 3, step / 20) for step in [*range(12), *range(9, 20)]]
    assert noted(only(csv_file(tmp_path / "a.csv", "step,clips,score", rows)), "restarted at step 9")


# --- restarted runs -------------------------------------------------------------------------------------------------


def test_the_newest_attempt_wins(tmp_path: Path) -> None:
    old = [(step, 0.9) for step in range(1, 9)]
    new = [(step, 0.1) for step in range(5, 7)]
    curve = only(csv_file(tmp_path / "a.csv", "step,score", [*old, *new]))
    assert points(curve) == [(1, 0.9), (2, 0.9), (3, 0.9), (4, 0.9), (5, 0.1), (6, 0.1)]
    assert noted(curve, "restarted at step 5: 4 earlier values replaced")
    twice = [(1, 0.1), (1, 0.3), (2, 0.2), (2, 0.4)]
    assert points(only(csv_file(tmp_path / "b.csv", "step,score", twice))) == twice
    rows = [(0.11, 1), (0.22, 2), (0.33, 3), (0.44, 4), (0.25, 9), (0.37, 9)]
    spent = only(csv_file(tmp_path / "c.csv", "gpu_hours,score", rows))
    assert points(spent) == [(0.11, 1), (0.22, 2), (0.25, 9), (0.37, 9)]


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


def trained(first: int, last: int) -> list[dict[str, float]]:
    return [{"step": step, "reward": 0.1} for step in range(first, last + 1)]


def evaluated(step: int, score: float) -> dict[str, float]:
    return {"step": step, "eval_reward": score}


OLD = [evaluated(0, 0.5), *trained(0, 5), evaluated(5, 0.5), *trained(6, 10), evaluated(10, 0.5), *trained(11, 11)]
NEW = [*trained(8, 10), evaluated(10, 0.7), *trained(11, 15), evaluated(15, 0.7), *trained(16, 20)]
LATE = [*trained(0, 3), evaluated(0, 0.5), *trained(4, 13), evaluated(10, 0.5), *trained(14, 20)]
AGAIN = [*trained(1, 8), evaluated(8, 0.8), evaluated(4, 0.4), *trained(4, 8), evaluated(8, 0.9)]


@pytest.mark.parametrize(
    ("rows", "expected", "restart"),
    [
        ([*OLD, *NEW], [(0, 0.5), (5, 0.5), (10, 0.7), (15, 0.7)], "restarted at step 8: 1 earlier values replaced"),
        (LATE, [(0, 0.5), (10, 0.5)], None),
        (AGAIN, [(4, 0.4), (8, 0.9)], "restarted at step 4"),
    ],
    ids=["which evaluations hide", "none where evaluations come late", "an evaluation before its first step stays"],
)
def test_training_rows_show_a_restart(
    tmp_path: Path, rows: list[dict[str, float]], expected: list[tuple[float, float]], restart: str | None
) -> None:
    curve = only(jsonl(tmp_path / "a.jsonl", rows))
    assert points(curve) == expected
    assert noted(curve, restart or "restarted") == (restart is not None)


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


def field(number: int, body: bytes) -> bytes:
    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    return varint(number << 3 | 2) + varint(len(body)) + body


def history(row: dict[str, object]) -> bytes:
    items = [
        field(
            1,
            (
                field(1, name.encode())
                if name.startswith("_")
                else b"".join(field(2, part.encode()) for part in name.split("/"))
            )
            + field(16, json.dumps(value).encode()),
        )
        for name, value in row.items()
    ]
    return field(2, b"".join(items))


def wandb_file(path: Path, records: list[bytes]) -> None:
    data = b":W&B\x01\x02\x03"
    for record in records:
        part, first = record, True
        while first or part:
            room = 32768 - len(data) % 32768
            if room < 7:
                data, room = data + bytes(room), 32768
            now, part = part[: room - 7], part[room - 7 :]
            kind = (1 if not part else 2) if first else (3 if part else 4)
            data, first = data + bytes(4) + len(now).to_bytes(2, "little") + bytes([kind]) + now, False
    path.write_bytes(data)


def test_a_folder_of_weights_and_biases_is_its_history(tmp_path: Path) -> None:
    run = tmp_path / "wandb" / "run-1-abc"
    run.mkdir(parents=True)
    rows = [{"_step": step, "actor/pg_loss": 0.5 / step, "text": "long " * 9000 * (step == 2)} for step in (1, 2, 3)]
    other = field(6, b"\x08\x01")  # a record of another kind
    wandb_file(run / "run-abc.wandb", [other, *map(history, rows)])
    (tmp_path / "wandb" / "latest-run").symlink_to(run)

    for path in (run, run / "run-abc.wandb", tmp_path / "wandb"):
        (table,) = read_table(path)
        assert table.columns["_step"].tolist() == [1, 2, 3]
        assert table.columns["actor/pg_loss"].tolist() == [0.5, 0.25, 0.5 / 3]
    whole = (run / "run-abc.wandb").read_bytes()
    (run / "run-abc.wandb").write_bytes(whole[:-5])  # the last record is being written
    assert read_table(run)[0].rows == 2


def test_mlflows_folder_and_database_are_rows_of_steps(tmp_path: Path) -> None:
    run = tmp_path / "mlruns" / "1" / "0a"
    write(run / "meta.yaml", "run_name: a\n")
    write(run / "metrics" / "critic" / "score" / "mean", "100 0.25 1\n160 0.5 2\n")
    assert read_table(run)[0].columns["critic/score/mean"].tolist() == [0.25, 0.5]

    with sqlite3.connect(tmp_path / "mlflow.db") as store:
        store.execute("create table runs (run_uuid, name)")
        store.execute("create table metrics (key, value, timestamp, run_uuid, step)")
        store.executemany("insert into runs values (?, ?)", [("0a", "first"), ("0b", None)])
        rows = [("loss", 1.0 / step, 0, run_id, step) for run_id in ("0a", "0b") for step in (1, 2)]
        store.executemany("insert into metrics values (?, ?, ?, ?, ?)", rows)
    tables = read_table(tmp_path / "mlflow.db")
    assert [(each.name, each.columns["loss"].tolist()) for each in tables] == [("first", [1, 0.5]), ("0b", [1, 0.5])]


def test_an_address_asks_for_its_client_or_says_what_is_read() -> None:
    with pytest.raises(InputError, match="is no run of W&B"):
        read_table(Path("https://example.org/x"))
    with pytest.raises(InputError, match="pip install wandb"):
        read_table(Path("https://wandb.ai/a/b/runs/c"))
