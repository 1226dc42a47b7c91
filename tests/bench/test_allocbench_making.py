import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench.allocating.making import How, Part, Standing, next_arguments, standing
from budgets.errors import InputError


def arguments(now: Standing, accept_changes: bool = False, again: bool = False) -> list[str] | None:
    return next_arguments(Part(Path("f"), "sum-easy"), 1, now, How(2, accept_changes, again))


def test_a_seed_is_started_resumed_or_left_alone() -> None:
    started = arguments(Standing("plan-3"))
    assert started is not None
    assert started[:6] == ["sweep", "plan-3", "--policy", "full", "--seed", "1"]
    for status in ("created", "running", "interrupted"):
        resumed = arguments(Standing("plan-3", "sweep-2", status))
        assert resumed is not None
        assert resumed[:2] == ["resume", "sweep-2"]
        assert "--accept-changes" not in resumed
    assert "--accept-changes" in (arguments(Standing("plan-3", "sweep-2", "interrupted"), accept_changes=True) or [])
    assert arguments(Standing("plan-3", "sweep-2", "finished")) is None
    assert arguments(Standing("plan-3", "sweep-2", "failed")) is None


def test_only_a_seed_whose_runs_were_shortened_is_swept_again() -> None:
    short = Standing("plan-3", "sweep-2", "finished", shortened=4)
    assert arguments(short) is None
    assert (arguments(short, again=True) or [])[:2] == ["sweep", "plan-3"]
    assert arguments(Standing("plan-3", "sweep-2", "finished"), again=True) is None
    assert (arguments(Standing("plan-3", "sweep-2", "interrupted", 4), again=True) or [])[0] == "resume"


def test_without_a_plan_there_is_nothing_to_start() -> None:
    with pytest.raises(InputError, match="no plan"):
        arguments(Standing())


def test_what_stands_is_read_from_the_newest_plan_of_the_budget(tmp_path: Path) -> None:
    part = Part(tmp_path, "sum-hard", "scalerl")
    assert standing(part, 0) == Standing()
    with closing(sqlite3.connect(part.database)) as connection:
        connection.executescript(
            f"""
            CREATE TABLE plans (id, name, budget_gpu_hours);
            CREATE TABLE sweeps (id, name, plan_id, status, policy, seed);
            CREATE TABLE trials (sweep_id, state);
            INSERT INTO trials VALUES (1, 'finished'), (3, 'paused'), (3, 'paused'), (3, 'running');
            INSERT INTO plans VALUES (1, 'plan-1', 0.06), (2, 'plan-2', {part.budget}), (3, 'plan-3', {part.budget});
            INSERT INTO sweeps VALUES (1, 'sweep-1', 1, 'finished', 'full', 0),
                (2, 'sweep-2', 2, 'finished', 'full', 0), (3, 'sweep-3', 3, 'interrupted', 'full', 1);
            """
        )
    assert standing(part, 0) == Standing("plan-3")
    assert standing(part, 1) == Standing("plan-3", "sweep-3", "interrupted", shortened=2)
    assert standing(part, 0, budget=0.06) == Standing("plan-1", "sweep-1", "finished")


def test_a_recipe_on_the_sub_grid_has_files_and_settings_of_its_own() -> None:
    whole, part = Part(Path("f"), "sum-hard"), Part(Path("f"), "sum-hard", "scalerl")
    assert (whole.database.name, part.database.name) == ("hard.db", "hard-scalerl.db")
    assert 'name = "scalerl"' in part.settings
    assert "recipe" not in whole.settings
    assert whole.budget / 30 == pytest.approx(part.budget / 10, rel=1e-3)
