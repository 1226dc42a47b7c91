"""What named trainers are told and what policies decide is what was recorded."""

from pathlib import Path

import pytest

from tests.golden.record import differences
from tests.golden.trainers import NAMED


@pytest.mark.parametrize("group", [*(f"trainer-{name}" for name in NAMED), "decisions"])
def test_it_is_as_recorded(group: str, tmp_path: Path) -> None:
    for name, (now, recorded) in differences(group, tmp_path).items():
        assert now == recorded, f"{group}/{name}"
