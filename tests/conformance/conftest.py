from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.store import Store, open_store
from tests.conformance.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "rlplan.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def store(location: str) -> Iterator[Store]:
    with open_store(location) as opened:
        yield opened
