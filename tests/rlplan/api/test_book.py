"""A database as a book to read from."""

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

import rlplan
from planner.store import open_store
from rlplan.api.book import Book
from rlplan.wording.frames import PLANS, SWEEPS
from tests.rlplan.api.conftest import columns_of


def test_it_lists_plans_and_sweeps_the_newest_first(book: Book) -> None:
    rlplan.propose(budget=5000)
    plans, sweeps = book.plans("rows"), book.sweeps("rows")
    assert [row["plan"] for row in plans] == ["plan-2", "plan-1"]
    assert (plans[0]["budget_gpu_hours"], plans[0]["gpu"], plans[0]["candidates"]) == (5000, "h100", 40)
    assert [(row["sweep"], row["plan"], row["status"]) for row in sweeps] == [("sweep-1", "plan-1", "finished")]
    assert sweeps[0]["trials"] == len(book.sweep().trials())
    assert sweeps[0]["gpu_hours_spent"] == pytest.approx(book.sweep().money.spent)
    assert plans[0]["created_at"].tzinfo is UTC
    assert sweeps[0]["finished_at"].tzinfo is UTC
    assert (columns_of(book.plans()), columns_of(book.sweeps())) == (list(PLANS), list(SWEEPS))


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
    assert len(sweep.trials("rows")) == 7
    asked: list[Any] = [book.plans, book.sweeps, book.plan, book.sweep, sweep.points, sweep.ranked, sweep.recommend]
    for question in [*asked, sweep.refresh, sweep.plot]:
        with pytest.raises(rlplan.StoreError, match="is closed: open it again"):
            question()


def test_a_sweep_that_goes_on_can_be_read_meanwhile(book: Book) -> None:
    with open_store("rlplan.db") as store, store.write():
        assert book.sweep().name == "sweep-1"


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Book("postgresql://me:secret@nowhere/rlplan"))
