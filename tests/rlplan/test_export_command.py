"""`rlplan export`: tables of a sweep as files, whole or not at all, and points that `rlplan replay` reads."""

import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from sqlalchemy import select

from planner.store import open_store, sweeps
from planner.store.schema import Point, Trial
from rlplan.commands.export import WHAT
from rlplan.wording import file_writing
from tests.planner.store import samples
from tests.planner.store.samples import NOON
from tests.rlplan.conftest import Run
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import seeded

TABLES = [what for what in WHAT if what != "all"]


@pytest.fixture
def database(tmp_path: Path) -> str:
    seeder = seeded(tmp_path / "rlplan.db")
    seeder.recommend()
    seeder.store.close()
    return str(tmp_path / "rlplan.db")


@pytest.mark.parametrize("what", TABLES)
def test_every_table_holds_the_same_rows_in_both_formats(run: Run, database: str, what: str) -> None:
    printed = run("export", "-", "--what", what).rows
    document = run.json("export", "-", "--what", what)
    assert (document["sweep"], document["what"]) == ("sweep-1", what)
    assert list(printed[0]) == document["columns"]
    assert {row["sweep"] for row in document["rows"]} == {"sweep-1"}
    as_text = [{name: _text(row.get(name)) for name in document["columns"]} for row in document["rows"]]
    assert printed == as_text != []


def test_a_reader_that_goes_before_the_end_is_no_error(database: str) -> None:
    rlplan = f"{sys.executable} -c 'from rlplan.entry import main; main()'"
    line = f"{rlplan} export - --what points --db {shlex.quote(database)} | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_points_tell_everything_and_mark_what_counts(run: Run, tmp_path: Path) -> None:
    seeder = seeded(tmp_path / "rlplan.db")
    seeder.score(1, 30, 0.9, attempt=2)
    with seeder.store.write() as session:
        session.get_one(Trial, 1).attempt = 2
    seeder.store.close()
    rows = run("export", "-").rows
    twice = [row for row in rows if (row["trial"], row["step"]) == ("n512-B32-s0", "30")]
    assert [(row["attempt"], row["score"], row["counts"]) for row in twice][1] == ("2", "0.9", "True")
    assert twice[0]["counts"] == "False"
    assert sum(row["counts"] == "False" for row in rows) == 1
    assert float(rows[0]["metrics.pass_rate"]) == float(rows[0]["score"])


def test_metrics_of_any_kind_that_come_late_are_the_same_as_text_and_as_values(run: Run, database: str) -> None:
    kinds = (
        {"a": 1e-06, "b": {"c": -12345678901234567890, "d": {}, "e": 0.1}},
        {"a": None, "b": {"c": True, "e": False}},
        {"a": "0.5, {", "b": {"c": '"quoted"', "e": "é\n"}},
        {"b": 2, "a": [0.25, {"x": 1}], "a.b": 3},
        {"f]": 1.5, "b": {"c": "text", "e": 7}},
        {},
        None,
    )
    with open_store(database) as store, store.write() as session:
        for number, point in enumerate(session.scalars(select(Point))):
            point.metrics = kinds[number % len(kinds)]
            point.further_scores = {"best@8": [0.5, 0.1], "best@4": []} if number % 2 else None
    printed = run("export", "-", "--format", "json")
    document = printed.json
    lines = [line.strip().rstrip(",") for line in printed.out.splitlines() if line.startswith("  {")]
    assert list(map(json.loads, lines)) == document["rows"]  # a line each
    values = [{name: row.get(name) for name in document["columns"]} for row in document["rows"]]
    assert len(values) > len(kinds)
    assert run("export", "-").rows == [{name: _text(value) for name, value in row.items()} for row in values]


def _text(value: Any) -> str:
    """Return what a cell of CSV has of a value of JSON."""
    return json.dumps(value) if isinstance(value, dict | list) else "" if value is None else str(value)


def test_all_tables_are_one_document(run: Run, database: str, tmp_path: Path) -> None:
    ran = run("export", "all.json", "--what", "all")
    assert (ran.code, ran.out) == (0, "")
    assert "of sweep-1 to all.json" in ran.err
    document = json.loads((tmp_path / "all.json").read_text())
    assert list(document) == ["sweep", *TABLES]
    assert len(document["trials"]) == 7
    for into in ("all.csv", "-"):
        ran = run("export", into, "--what", "all")
        assert (ran.code, "all tables go into one JSON document" in ran.err) == (2, True)


def test_replay_reads_what_was_exported_for_it(run: Run, tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db")
    assert run("export", "runs.csv", "--for", "replay").code == 0
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    needed = ["run", "rollouts_per_prompt", "prompts_per_batch", "seed", "gpu_hours", "score"]
    assert list(rows[0])[:6] == needed
    assert len({row["run"] for row in rows}) == 8
    played = run.json("replay", "runs.csv", "--budget", "50%", "--target", "0.02", "--policy", "asha")
    assert played["regret"] >= 0
    chosen = (str(played["chosen"]["rollouts_per_prompt"]), str(played["chosen"]["prompts_per_batch"]))
    assert chosen in {(row["rollouts_per_prompt"], row["prompts_per_batch"]) for row in rows}


def test_axes_are_columns_of_a_replay_and_cannot_hide_others(run: Run, database: str) -> None:
    with open_store(database) as store, store.write() as session:
        for trial in session.scalars(select(Trial)):
            trial.axes = (("recipe", "dapo" if trial.id % 2 else "easy"), ("learning_rate", 0.5))
    rows = run("export", "-", "--for", "replay").rows
    assert {(row["recipe"], row["learning_rate"]) for row in rows} == {("dapo", "0.5"), ("easy", "0.5")}
    trials = run("export", "-", "--what", "trials").rows
    assert {(row["axis_learning_rate"], row["learning_rate"]) for row in trials} == {("0.5", "1e-06")}
    listed = run("status", "--format", "csv").rows
    assert {(row["axis_recipe"], row["learning_rate"]) for row in listed} == {("dapo", "1e-06"), ("easy", "1e-06")}


def test_a_file_is_never_replaced_but_by_force(run: Run, database: str, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("mine\n")
    ran = run("export", "mine.csv")
    assert ran.code == 2
    assert "exists already; give another path, or --force" in ran.err
    assert (tmp_path / "mine.csv").read_text() == "mine\n"
    assert run("export", "mine.csv", "--force").code == 0
    assert (tmp_path / "mine.csv").read_text().startswith("sweep,trial,")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("rlplan.db")] == ["mine.csv"]


def test_what_another_made_in_the_meantime_stays(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"

    def meanwhile(file: BinaryIO) -> None:
        path.write_bytes(b"theirs")
        file.write(b"ours")

    with pytest.raises(file_writing.InputError, match="exists already"):
        file_writing.write_file(path, meanwhile, force=False)
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("force", "failing"), [(False, "fsync"), (True, "fsync"), (True, "replace")])
def test_a_write_that_fails_leaves_nothing_and_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool, failing: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    old = tmp_path / "old.csv"
    old.write_bytes(b"old")
    monkeypatch.setattr(os, failing, full)
    with pytest.raises(file_writing.InputError, match="cannot be written: the disk is full"):
        file_writing.write_file(old if force else tmp_path / "new.csv", b"new", force=force)
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_bytes() == b"old"


def test_a_sweep_without_scores_has_nothing_to_replay(run: Run, tmp_path: Path) -> None:
    with open_store(tmp_path / "rlplan.db") as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
        samples.put(store, sweeps.create_sweep, None, samples.sweep(), NOON)
    ran = run("export", "runs.csv", "--for", "replay")
    assert (ran.code, "has no scores yet" in ran.err) == (3, True)
    assert run("export", "-", "--what", "segments").out.startswith("sweep,trial,number,")
    assert run("export", "none.csv", "--what", "fits").code == 0
