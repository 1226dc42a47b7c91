from pathlib import Path

import pytest

from tests.rlplan.sweep_rows import seeded


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a sweep in the middle of its life, which nobody has open."""
    path = tmp_path / "rlplan.db"
    seeded(path).store.close()
    return path
