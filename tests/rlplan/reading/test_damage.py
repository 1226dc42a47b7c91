"""A damaged row hides nothing else: it is left out of the story, and named."""

import math
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from budgets.errors import StoreError
from planner.store import open_store
from planner.store.sweeps import sweep_named
from rlplan.reading.believing import beliefs
from rlplan.reading.story import Health, Story
from rlplan.reading.story_data import story_data
from rlplan.reading.story_reading import story
from rlplan.reading.sweep_trials import Memory
from tests.rlplan.sweep_rows import Seeder, later

DAMAGE = {
    "update decisions set seen = '{' where number = 3": "decision 3 cannot be read",
    "update decisions set alternatives = 'no list' where number = 3": "decision 3 cannot be read",
    "update decisions set alternatives = '7' where number = 3": "decision 3 is left out: its alternatives is 7",
    "update decisions set at = 'yesterday' where number = 3": "decision 3 cannot be read",
    "update decisions set reason = x'ff' where number = 3": "decision 3 is left out: its reason is b'\\xff'",
    "update decisions set reason = cast(x'ff' as text) where number = 3": "decision 3 cannot be read",
    "update trials set axes = 'all of them' where id = 4": "trial 4 cannot be read",
    "update trials set state = 'asleep' where id = 4": "trial 4 cannot be read",
    "update trials set learning_rate = 'low' where id = 4": "the trial n32-B32-s0 is left out: its learning_rate",
    "update trials set gpu_hours_spent = 9e999 where id = 4": "n32-B32-s0 is left out: its gpu_hours_spent is inf",
    "update points set score = 'high' where trial_id = 4 and optimizer_step = 2": "scores of n32-B32-s0 are left out",
    "update points set score = 9e999 where trial_id = 4 and optimizer_step > 2": "at step 4, 6, 8 and 6 more",
    "update points set gpu_hours = -9e999 where trial_id = 4": "scores of n32-B32-s0 are left out",
    "update fits set predicted_mean = 9e999 where trial_id = 4": "the forecast of n32-B32-s0 is left out",
    "update fits set predicted_low = 'low' where trial_id = 4": "the forecast of n32-B32-s0 is left out",
    "update segments set outcome = 'odd' where id = 1": "segment 1 cannot be read",
    "update segments set started_at = 'soon' where id = 1": "segment 1 cannot be read",
    "update segments set charged_gpu_hours = 9e999 where id = 1": "segment 1 of n512-B32-s0 is left out",
    "update charges set at = ''": "charge 1 cannot be read",
    "update charges set gpu_hours = 'few'": "a charge of w1 is left out",
    "update candidates set axes = '[' where rank = 2": "rank of the plan 2 cannot be read",
    "update candidates set signal_fraction = 9e999 where rank = 2": "its signal_fraction is inf",
    "update plans set assumptions = '{'": "the assumptions of plan 1 cannot be read",
    'update plans set assumptions = \'[7, {"what": "a"}]\'': "1 of the plan's assumptions are left out",
    "update recommendations set details = '{'": "recommendation 1 cannot be read",
    "update recommendations set expected_score = 9e999": "the recommendation is left out: its expected_score is inf",
    "update rankings set axes = '{' where rank = 2": "rank 2 cannot be read",
    "update rankings set expected_score = 'best' where rank = 2": "rank 2 of the recommendation is left out",
}


def damaged(seeder: Seeder, *statements: str) -> None:
    with closing(sqlite3.connect(seeder.store.location)) as connection, connection:
        connection.execute("pragma ignore_check_constraints = on")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0


def numbers(value: object) -> Iterable[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


def rows(told: Story) -> int:
    """Count everything that a story has."""
    seen = told.picture
    parts = (told.stretches, told.charges, told.decisions, told.cells, told.assumptions, seen.trials)
    scores = sum(len(trial.scores) + (trial.forecast is not None) for trial in seen.trials)
    return sum(map(len, parts)) + scores + (len(seen.answer.ranking) + 1 if seen.answer else 0)


@pytest.mark.parametrize("statement", DAMAGE)
def test_a_damaged_row_is_left_out_and_named(seeder: Seeder, statement: str) -> None:
    seeder.recommend()
    before = story(seeder.store, now=later(seeder))
    damaged(seeder, statement)
    memory: Memory = {}
    told = story(seeder.store, now=later(seeder), memory=memory)
    bad = [flag.text for flag in told.flags if flag.health is Health.BAD]
    assert any(DAMAGE[statement] in text for text in bad)
    assert rows(before) / 2 < rows(told) <= rows(before)
    assert all(map(math.isfinite, numbers(story_data(told, None))))
    assert story(seeder.store, now=later(seeder), memory=memory).flags == told.flags  # no memory hides it


def test_all_that_is_damaged_is_named(seeder: Seeder) -> None:
    damaged(seeder, "update decisions set seen = '{' where number % 3 = 0")
    told = story(seeder.store, now=later(seeder))
    assert [each.number for each in told.decisions] == [n for n in range(1, told.picture.decisions + 1) if n % 3]
    flags = [flag.text for flag in told.flags if flag.text.startswith("decision")]
    assert len(flags) == told.picture.decisions // 3


@pytest.mark.parametrize(
    "statement",
    ["update sweeps set config = '{'", "update sweeps set status = 'odd'", "update plans set hardware = ']'"],
)
def test_what_a_story_cannot_do_without_is_an_error_that_says_what_to_do(seeder: Seeder, statement: str) -> None:
    damaged(seeder, statement)
    with pytest.raises(StoreError, match=r"newest sweep cannot be read.* go back to a copy"):
        story(seeder.store)


def test_further_scores_that_are_damaged_are_left_out_each_time(seeder: Seeder) -> None:
    with seeder.store.write() as session:
        sweep = sweep_named(session, None)
        sweep.config = sweep.config | {"training": {"validation": {"metric": "best", "samples": 4}}}
    good = '{"best@4": [0.5, 0.01]}'
    damaged(seeder, f"update points set further_scores = '{good}'")
    scores = len(story(seeder.store).picture.trials[0].scores)
    damaged(seeder, "update points set further_scores = '{\"best@4\": [' where trial_id = 1 and optimizer_step = 4")
    memory: Memory = {}
    for _ in range(2):
        told = story(seeder.store, memory=memory)
        assert len(told.picture.trials[0].scores) == scores - 1
        assert any("the point of trial, step, attempt 1, 4, 1 cannot be read" in flag.text for flag in told.flags)


def test_what_is_believed_of_a_damaged_sweep_says_why_it_is_nothing(seeder: Seeder, tmp_path: Path) -> None:
    with open_store(seeder.store.location, read_only=True) as store:
        assert "settings of sweep-1" in str(beliefs(store).why_not)  # those of the rows in this test are none
    damaged(seeder, "update trials set axes = 'all of them' where id = 4")
    assert "holds a value that cannot be read" in str(beliefs(seeder.store.location).why_not)
