from pathlib import Path

from bench.replay_seconds import seconds, unpacked
from bench.scheduler_scale import measured, taught
from planner.replaying.reading import read_recorded


def test_sources_are_other_worlds_each_of_its_own_name() -> None:
    assert taught(0, 0) is None
    teacher = taught(2, 0)
    assert teacher is not None
    first, second = teacher.sources
    assert first.name != second.name
    assert first.mean.tolist() != second.mean.tolist()


def test_a_small_sweep_with_sources_is_measured_to_its_end(tmp_path: Path) -> None:
    found = measured(tmp_path / "s.db", "rlplan", 20, 0, 1)
    assert (found.trials, found.sources) == (20, 1)
    assert 0 < found.spent <= found.budget
    assert 0 < found.core_ms[0] <= found.core_ms[1]


def test_a_replay_is_timed_over_the_ninety_runs_of_a_task(tmp_path: Path) -> None:
    assert len(read_recorded(unpacked("sum-hard", tmp_path)).recorded.runs) == 90
    assert seconds(["--version"], 1) > 0
