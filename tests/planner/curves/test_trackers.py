"""Runs of experiment trackers, read without them; the bytes of W&B's are laid out as its library writes them."""

import json
import sqlite3
from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.curves.files import read_table
from tests.planner.curves.reading_samples import write


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
