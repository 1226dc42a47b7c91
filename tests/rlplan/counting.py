"""Counts what is asked of a database."""

from collections.abc import Callable

from sqlalchemy import event

from planner.store import Store


def selects(store: Store, read: Callable[[], object]) -> int:
    asked: list[str] = []

    def count(*given: object) -> None:
        asked.append(str(given[2]))

    engine = store._engines.reader
    event.listen(engine, "before_cursor_execute", count)
    try:
        read()
    finally:
        event.remove(engine, "before_cursor_execute", count)
    return len([each for each in asked if each.startswith("SELECT")])
