"""Files that are damaged by chance are read, or refused in a line: never by an internal error, nor without end."""

import os
from pathlib import Path

import pytest

from tests.security.fuzzing import Call, read_all

FILES = int(os.environ.get("RLPLAN_FUZZ_FILES", "70"))
SEED = int(os.environ.get("RLPLAN_FUZZ_SEED", "0"))


def test_no_damaged_file_is_an_internal_error_or_takes_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[tuple[int, Call]] = []
    read_all(range(SEED, SEED + FILES), tmp_path, lambda seed, call: calls.append((seed, call)))
    slowest, largest = max(call.seconds for _, call in calls), max(call.grown for _, call in calls)
    with capsys.disabled():
        print(f"\n{FILES} files, {len(calls)} calls, at most {slowest:.1f} s and {largest / 2**20:.0f} MiB")  # noqa: T201
    assert [f"{seed} {call.reader}: {call.why}" for seed, call in calls if call.why] == []
