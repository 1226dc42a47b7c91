from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rlplan.sweep_rows import Seeder, seeded


@pytest.fixture
def seeder(tmp_path: Path) -> Iterator[Seeder]:
    opened = seeded(tmp_path / "rlplan.db")
    yield opened
    opened.store.close()
