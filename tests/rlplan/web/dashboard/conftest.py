from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.rlplan.sweep_rows import Seeder
from tests.rlplan.web.dashboard.visits import visiting


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "rlplan.db"


@pytest.fixture
def sweep(seeder: Seeder) -> Seeder:
    """A sweep in the middle of its life."""
    return seeder


@pytest.fixture
def visitor(sweep: Seeder, database: Path) -> Iterator[TestClient]:
    """Somebody who looks at it."""
    with visiting(database) as client:
        yield client
