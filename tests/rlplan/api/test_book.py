"""A database as a book to read from, and plans from Python, made and stored."""

import inspect
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

import rlplan
from rlplan.api.results import Book
from tests.rlplan.conftest import Run


def test_it_lists_plans_and_sweeps_the_newest_first(book: Book) -> None:
    rlplan.propose(budget=5000)
    plans, sweeps = book.plans(), book.sweeps()
    assert [row["plan"] for row in plans] == ["plan-2", "plan-1"]
    assert (plans[0]["budget_gpu_hours"], plans[0]["gpu"], plans[0]["candidates"]) == (5000, "h100", 40)
    assert [(row["sweep"], row["plan"], row["status"]) for row in sweeps] == [("sweep-1", "plan-1", "finished")]
    assert sweeps[0]["trials"] == len(book.sweep().trials())
    assert sweeps[0]["gpu_hours_spent"] == pytest.approx(book.sweep().money.spent)
    assert plans[0]["created_at"].tzinfo is UTC
    assert sweeps[0]["finished_at"].tzinfo is UTC


def test_the_newest_is_the_default_and_others_have_names(book: Book) -> None:
    rlplan.propose(budget=5000)
    assert (book.plan().name, book.plan("plan-1").name, book.sweep().name) == ("plan-2", "plan-1", "sweep-1")
    with pytest.raises(rlplan.NotFoundError, match="plan-9"):
        book.plan("plan-9")
    with pytest.raises(rlplan.NotFoundError, match="sweep-9"):
        book.sweep("sweep-9")


def test_what_is_no_database_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(rlplan.NotFoundError, match="there is no results database at"):
        rlplan.open("none.db")
    assert not (tmp_path / "none.db").exists()
    Path("text.db").write_text("no database at all", encoding="utf-8")
    with pytest.raises(rlplan.StoreError, match="is not an SQLite database"):
        rlplan.open("text.db")


def test_a_closed_book_says_so_and_what_was_read_stays(book: Book) -> None:
    with book as opened:
        sweep = opened.sweep()
    assert book.closed
    assert "closed" in repr(book)
    assert len(sweep.trials()) == 7
    asked: list[Any] = [book.plans, book.sweeps, book.plan, book.sweep, sweep.points, sweep.ranked, sweep.recommend]
    for question in [*asked, sweep.refresh]:
        with pytest.raises(rlplan.StoreError, match="is closed: open it again"):
            question()


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Book("postgresql://me:secret@nowhere/rlplan"))


def test_a_plan_is_the_document_of_the_command(run: Run) -> None:
    plan = rlplan.propose(budget=5000, model="qwen3-8b", gpu="h100", gpus=64)
    flags = ("--budget", "5000", "--model", "qwen3-8b", "--gpu", "h100", "--gpus", "64", "--format", "json")
    printed = run("propose", *flags).json
    said = json.loads(json.dumps(plan.to_dict()))
    for document in (printed, said):
        document.pop("plan")
        for each in document["assumptions"]:  # where a value comes from: a flag there, an argument here
            each.pop("source")
    assert said == printed


def test_a_stored_plan_is_the_plan_that_was_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPLAN_DB", "here.db")
    plan = rlplan.propose(budget=5000, recipes=["grpo", "scalerl"])
    stored = rlplan.open().plan("plan-1")
    assert (plan.database, Path("here.db").exists()) == ("here.db", True)
    assert stored.candidates == plan.candidates
    assert stored.assumptions == plan.assumptions
    kept, proposed = stored.to_dict(), plan.to_dict()
    same = set(kept) - {"candidates", "axes"}
    assert {key: kept[key] for key in same} == {key: proposed[key] for key in same}
    assert sorted(kept["axes"]["recipe"]) == sorted(proposed["axes"]["recipe"])
    assert set(plan.table()[0]) >= {"axis_recipe", "expected_score"}


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"budget": -5}, rlplan.InputError, "^budget=-5: it must be above 0"),
        ({"budget": 100, "gpu": "h10"}, rlplan.UnknownNameError, "h10"),
        ({"budget": 100, "config": "none.toml"}, rlplan.ConfigError, "none.toml"),
        ({}, rlplan.InputError, "such as budget=5000"),
        ({"budget": 100, "gpus": 0}, rlplan.ConfigError, "^gpus: hardware.gpus = 0 should be"),
    ],
)
def test_errors_speak_of_arguments(given: dict[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said) as raised:
        rlplan.propose(**given)
    assert "--" not in str(raised.value)
    assert not Path("rlplan.db").exists()


def test_a_mistyped_argument_is_named_with_the_nearest_and_functions_say_what_they_return() -> None:
    with pytest.raises(TypeError, match=r"^propose\(\) got .* argument 'budgt': did you mean 'budget'"):
        rlplan.propose(budgt=5000)  # type: ignore[call-arg]
    for function in (rlplan.propose, rlplan.fit, rlplan.price, rlplan.preview, rlplan.run, rlplan.adopt, rlplan.watch):
        assert inspect.signature(function).return_annotation not in (None, inspect.Parameter.empty)


def test_a_plan_is_previewed_as_it_was_returned() -> None:
    plan = rlplan.propose(budget=0.02, task="sum-easy", db="other.db")
    found = rlplan.preview(plan, draws=1, pilot_fractions="0,0.2")  # type: ignore[arg-type]
    assert found.to_dict()["plan"] == plan.name
