import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.rlplan.conftest import Run

RUN = {
    "row_id": "a",
    "framework": "verl",
    "model_shape": "qwen3-8b",
    "gpu_kind": "h100",
    "gpu_count": "16",
    "rollouts_per_prompt": "16",
    "prompts_per_batch": "64",
    "mean_prompt_tokens": "128",
    "mean_response_tokens": "1100",
    "max_response_tokens": "4096",
    "seconds_per_step": "90",
}


def table(path: Path, *rows: dict[str, str]) -> Path:
    file = path / "runs.csv"
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)
    return file


def priced(run: Run, file: Path) -> dict[str, Any]:
    ran = run("price", str(file), "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    document: dict[str, Any] = json.loads(ran.out)
    return document


def test_each_row_is_priced_beside_what_was_measured(run: Run, tmp_path: Path) -> None:
    document = priced(run, table(tmp_path, RUN))

    (row,) = document["rows"]
    seconds = row["predicted_seconds"]
    assert 0 < seconds["low"] < seconds["median"] < seconds["high"]
    assert row["measured_seconds"] == 90
    assert row["ratio"] == pytest.approx(seconds["median"] / 90)
    assert {"generate", "train", "sync"} <= set(row["phases"])
    assert document["summary"]["rows"] == 1
    assert document["summary"]["typical_miss"] == pytest.approx(max(row["ratio"], 1 / row["ratio"]))


def test_a_length_that_is_not_stated_is_expected_with_a_wider_interval(run: Run, tmp_path: Path) -> None:
    known = RUN | {"max_response_tokens": "30000"}
    known_row, unknown_row = (
        priced(run, table(tmp_path, row))["rows"][0] for row in (known, known | {"mean_response_tokens": ""})
    )

    def factor(row: dict[str, Any]) -> float:
        return row["predicted_seconds"]["high"] / row["predicted_seconds"]["low"]

    assert factor(unknown_row) > 1.3 * factor(known_row)
    assert any("expected of a reasoning model" in note for note in unknown_row["notes"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"gpu_kind": "tpu-v5"}, "unknown GPU 'tpu-v5'"),
        ({"mode": "sideways"}, "mode 'sideways'"),
        ({"gpu_count": "some"}, "gpu_count is 'some'"),
        ({"model_shape": ""}, "no model_shape"),
    ],
)
def test_a_row_that_cannot_be_priced_is_in_the_list_with_the_reason(
    run: Run, tmp_path: Path, change: dict[str, str], named: str
) -> None:
    document = priced(run, table(tmp_path, RUN | change, RUN | {"row_id": "b"}))

    first, second = document["rows"]
    assert first["predicted_seconds"] is None
    assert named in first["notes"][0]
    assert second["predicted_seconds"] is not None
    assert document["summary"]["rows"] == 1


def test_unknown_columns_are_passed_over_and_rows_without_a_measure_are_priced_all_the_same(
    run: Run, tmp_path: Path
) -> None:
    document = priced(run, table(tmp_path, RUN | {"colour": "blue", "seconds_per_step": ""}))

    assert document["rows"][0]["ratio"] is None
    assert document["summary"] == {"rows": 0, "typical_miss": None, "within_90": None, "inside_interval": None}


def test_the_table_fits_a_terminal_and_csv_has_a_row_a_run(run: Run, tmp_path: Path) -> None:
    file = table(tmp_path, RUN, RUN | {"row_id": "b", "gpu_kind": "tpu-v5"})

    drawn, rows = run("price", str(file)).out, run("price", str(file), "--format", "csv").out

    assert max(map(len, drawn.splitlines())) <= 80
    assert "1 of 2 rows can be compared" in drawn
    assert [row["row_id"] for row in csv.DictReader(io.StringIO(rows))] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [(None, 3, "no file"), ("row_id\na\n", 2, "model_shape"), (",".join(RUN) + "\n", 2, "no row")],
)
def test_what_is_no_table_of_runs_is_refused(run: Run, tmp_path: Path, text: str | None, code: int, named: str) -> None:
    file = tmp_path / "runs.csv"
    if text is not None:
        file.write_text(text)

    ran = run("price", str(file))

    assert ran.code == code
    assert named in ran.err
