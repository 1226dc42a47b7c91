"""What commands answer, trainers are told and policies decide is what was recorded.

A refactoring changes none of it. After an intended change, `python -m tests.golden.record` writes it anew; the diff is
read before it is committed.
"""

from pathlib import Path

import pytest

from tests.golden.record import GROUPS, OUTPUTS, made


@pytest.mark.parametrize("group", GROUPS)
def test_answers_are_as_recorded(group: str, tmp_path: Path) -> None:
    files = made(group, tmp_path)
    recorded = {path.name: path.read_text(encoding="utf-8") for path in (OUTPUTS / group).iterdir()}
    assert sorted(files) == sorted(recorded)
    for name, content in files.items():
        assert content == recorded[name], f"{group}/{name}"


def test_every_recorded_group_is_made() -> None:
    assert {folder.name for folder in OUTPUTS.iterdir()} == set(GROUPS)
