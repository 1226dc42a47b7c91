"""A sweep in Python: run, resumed, read, and the calls that answers name next."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlplan
from planner.store import open_store, results
from planner.store.schema import SweepStatus
from rlplan.actions import sweeping
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweeping import Finished
from rlplan.api.python_calls import python_call
from rlplan.api.results import Book
from tests.planner.store import samples
from tests.planner.store.samples import point
from tests.rlplan.conftest import Run
from tests.rlplan.fit_samples import write
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


Calls = list[Callable[[Interrupts], None]]
SMALL: dict[str, Any] = {"task": "sum-easy", "budget": 0.02, "policy": "full", "workers": 2}


def stop(interrupts: Interrupts) -> None:
    interrupts.requested = True


@pytest.mark.parametrize("in_a_thread", [False, True])  # which gets no signals
def test_a_sweep_runs_beneath_an_event_loop_and_is_returned(
    meanwhile: Calls, capsys: pytest.CaptureFixture[str], in_a_thread: bool
) -> None:
    async def cell() -> rlplan.Sweep:
        return await asyncio.to_thread(rlplan.run, **SMALL) if in_a_thread else rlplan.run(**SMALL)

    sweep = asyncio.run(cell())
    assert (sweep.name, sweep.status) == ("sweep-1", "finished")
    assert sweep.money.spent > 0
    assert sweep.answer is not None
    assert {row["state"] for row in sweep.trials()} <= {"finished", "paused"}
    said = capsys.readouterr()
    assert said.out == ""
    assert "sweep-1" in said.err


def test_a_plan_is_run_in_the_database_that_it_is_in(meanwhile: Calls) -> None:
    plan = rlplan.propose(budget=0.02, task="sum-easy", db="mine.db")
    sweep = rlplan.run(plan, policy="full")
    assert (sweep.plan, sweep.database) == (plan.name, "mine.db")


def test_a_stop_from_elsewhere_returns_the_sweep(meanwhile: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sweeping.start

    def start(*asked: Any, **options: Any) -> Finished:
        return replace(real(*asked, **options), interrupted=True)

    monkeypatch.setattr(sweeping, "start", start)
    assert rlplan.run(**SMALL).name == "sweep-1"


def test_an_interrupt_saves_the_state_and_it_goes_on(meanwhile: Calls) -> None:
    meanwhile.append(stop)
    with pytest.raises(KeyboardInterrupt, match=r"sweep-1 was stopped .* rlplan.resume\('sweep-1'\)"):
        rlplan.run(**SMALL)
    stopped = rlplan.open().sweep()
    assert stopped.status == "interrupted"
    assert rlplan.resume(stopped).status == "finished"
    with pytest.raises(rlplan.NotFoundError, match="has ended"):
        rlplan.resume()
    with pytest.raises(rlplan.NotFoundError, match="no trial of sweep-1 has failed"):
        rlplan.retry("sweep-1")


def test_printed_answers_end_with_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for answer in (rlplan.fit(write(tmp_path / "run.csv")), rlplan.price(gpus=8)):
        lines = str(answer).partition("\nNext\n")[2].splitlines()
        assert lines
        assert all(line.startswith("  rlplan.") for line in lines), lines


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("rlplan --plot fit.html", "rlplan.fit(…, plot='fit.html')"),
        ("rlplan sweep plan-1 --from 'a b.sh'", "rlplan.run('plan-1', script='a b.sh')"),
        ("rlplan price -n 8 --gpus=16 --db x.db", "rlplan.price(rollouts_per_prompt=8, gpus=16, db='x.db')"),
        ("rlplan check a.sh --fix", "rlplan.check('a.sh', fix=True)"),
        ("rlplan rank sweep-1 --db x.db", "rlplan.open('x.db').sweep('sweep-1').ranked()"),
        ("rlplan rank plan-1", "rlplan.open('rlplan.db').plan('plan-1')"),
        ("rlplan launch sweep-1 --print verl", None),
        ("rlplan --explain", None),
        ("rlplan dashboard", None),
    ],
)
def test_a_command_has_the_call_that_does_the_same(line: str, call: str | None) -> None:
    assert python_call(line, "fit") == call


def test_n_and_b_are_names_of_arguments() -> None:
    priced = rlplan.price(n=16, B=32, gpus=8)  # type: ignore[call-arg]
    assert priced == rlplan.price(rollouts_per_prompt=16, prompts_per_batch=32, gpus=8)
    with pytest.raises(TypeError, match="both 'n' and 'rollouts_per_prompt'"):
        rlplan.price(n=16, rollouts_per_prompt=8)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'n'"):
        rlplan.propose(budget=5, n=16)  # type: ignore[call-arg]
