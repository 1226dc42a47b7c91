"""What commands answer is what was recorded.

A refactoring changes none of it. After an intended change, `python -m tests.golden.record` writes it anew; the diff is
read before it is committed.
"""

from pathlib import Path

import pytest

from tests.golden.databases import DATABASES
from tests.golden.record import GROUPS, OUTPUTS, differences


@pytest.mark.parametrize("group", [*DATABASES, "files"])
def test_commands_answer_as_recorded(group: str, tmp_path: Path) -> None:
    for name, (now, recorded) in differences(group, tmp_path).items():
        assert now == recorded, f"{group}/{name}"


def test_every_recorded_group_is_made() -> None:
    assert {folder.name for folder in OUTPUTS.iterdir()} == set(GROUPS)
