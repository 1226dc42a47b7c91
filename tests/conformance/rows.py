"""What a store holds, in numbers."""

from sqlalchemy import func, select

from planner.store import Store


def count(store: Store, table: type) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0
