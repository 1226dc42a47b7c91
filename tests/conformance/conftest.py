from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.store import Store, open_store
from planner.store.control import Driver, take_lease
from tests.conformance.postgres import postgres_server, postgres_url
from tests.planner.store.samples import NOON, started_sweep

__all__ = ["postgres_server", "postgres_url"]
FIRST, SECOND = Driver("first@1", "here", 11), Driver("second@2", "there", 22)


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "rlplan.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def store(location: str) -> Iterator[Store]:
    with open_store(location) as opened:
        yield opened


@pytest.fixture
def driven(store: Store) -> str:
    """A sweep that the first driver drives."""
    sweep = started_sweep(store)
    with store.write() as session:
        take_lease(session, sweep, FIRST, NOON)
    return sweep
