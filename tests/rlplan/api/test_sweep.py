"""A sweep as an object: its state, its rows, its answer."""

import json
from pathlib import Path

import rlplan
from planner.store import open_store, results
from planner.store.schema import SweepStatus
from rlplan.api.results import Book
from tests.planner.store import samples
from tests.planner.store.samples import point
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import seeded


def test_rows_hold_what_the_commands_print(book: Book, run: Run) -> None:
    sweep = book.sweep()
    printed = run.json("status", "sweep-1")
    for row, trial in zip(sweep.trials(), printed["trials"], strict=True):
        assert row == {name: trial[name] for name in row}
    curves = [(trial["trial"], *point.values()) for trial in printed["trials"] for point in trial["points"]]
    names = ("trial", "step", "gpu_hours", "score", "score_standard_error")
    assert [tuple(row[name] for name in names) for row in sweep.curves()] == curves
    decided = run.json("decisions", "sweep-1")["decisions"]
    for row, decision in zip(sweep.decisions(), decided, strict=True):
        assert [row[name] for name in ("number", "action", "reason")] == [
            decision[name] for name in ("number", "action", "reason")
        ]
        assert json.loads(row["seen"]) == decision["seen"]
        assert row["at"].isoformat() == decision["at"]
    (first, *_) = sweep.segments()
    assert (first["outcome"], first["segment"]) == ("committed", 1)


def test_points_have_what_training_measured(book: Book) -> None:
    trial = book.sweep().picture.trials[0].id
    metrics = {"reward": 0.25, "seconds": {"train": 2, "sync": None}, "note": "text", "spread": [1, 2]}
    with open_store("rlplan.db") as store:
        samples.put(store, results.add_points, [point(trial, 999, score=None, metrics=metrics)])
    rows = book.sweep().points()
    (last,) = [row for row in rows if row["step"] == 999]
    assert (last["metric_reward"], last["metric_seconds_train"], last["score"]) == (0.25, 2.0, None)
    assert not {"metric_note", "metric_spread", "metric_seconds_sync", "metrics"} & set(last)
    assert len(rows) > len(book.sweep().curves())


def test_a_sweep_is_a_moment_until_it_is_refreshed(tmp_path: Path) -> None:
    seeder = seeded(tmp_path / "rlplan.db")
    sweep = rlplan.open().sweep()
    seeder.end(SweepStatus.INTERRUPTED)
    seeder.store.close()
    assert sweep.status == "running"
    assert sweep.refresh().status == "interrupted"
    assert sweep.status == "running"


def test_it_recommends_as_the_command_does(sweep: rlplan.Sweep, run: Run) -> None:
    answer = sweep.recommend(target=2.0)
    printed = run.json("recommend", "--target", "2")
    assert json.loads(json.dumps(answer.to_dict())) == printed
    assert answer.best.rollouts_per_prompt == printed["recommendation"]["rollouts_per_prompt"]
    assert [answer.sentence, answer.certainty] == printed["sentences"]
    assert answer.command == printed["launch"]["command"]
    assert answer.table()[1][0]["rollouts_per_prompt"] == answer.best.rollouts_per_prompt


def test_an_answer_prints_as_the_command_does(sweep: rlplan.Sweep, run: Run) -> None:
    words = str(sweep.recommend()).split()
    printed = run("recommend", "--explain", width=100).out.split()
    launch = words.index("To", words.index("Mind"))
    assert words[: launch + 3] == printed[: launch + 3]


def test_what_an_answer_names_next_is_in_its_own_database(sweep: rlplan.Sweep) -> None:
    Path("rlplan.db").rename("own.db")
    told = str(rlplan.open("own.db").sweep().recommend())
    lines = [line.strip() for line in told.partition("Next")[2].splitlines() if line.strip().startswith("rlplan")]
    assert lines
    assert all(line.startswith("rlplan.") and "own.db" in line for line in lines)
