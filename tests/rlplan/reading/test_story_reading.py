"""The story that the rows of a sweep tell, and what reading it costs."""

from pathlib import Path

import pytest

from budgets.errors import NotFoundError
from planner.config import Assumption
from planner.store import Store, open_store, sweeps
from planner.store.schema import SegmentOutcome
from planner.trials import TrialState
from rlplan.reading.points import Memory
from rlplan.reading.story_reading import story
from rlplan.reading.sweep_reading import picture
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at
from tests.rlplan.counting import selects
from tests.rlplan.sweep_rows import HOURS, STEPS, TRIALS, Seeder, later


def test_a_story_has_every_segment_charge_and_decision(seeder: Seeder) -> None:
    told = story(seeder.store, now=later(seeder))
    assert told.picture == picture(seeder.store, now=later(seeder))
    begun = sum(trial[3] for trial in TRIALS) + 3  # two run and one has failed
    assert len(told.stretches) == begun
    assert [each.started_at for each in told.stretches] == sorted(each.started_at for each in told.stretches)
    first = told.stretches[0]
    assert (first.worker, first.name, first.number, first.from_step, first.to_step) == ("w1", "n512-B32-s0", 1, 0, 10)
    assert (first.reserved_gpu_hours, first.charged_gpu_hours) == (HOURS, HOURS - 1)
    assert sum(each.ended_at is None for each in told.stretches) == 2
    assert [(each.kind, each.gpu_hours) for each in told.charges] == [("idle", 4.5)]
    assert [each.number for each in told.decisions] == list(range(1, told.picture.decisions + 1))
    assert told.decisions[0].seen == {"p": 0.5}
    assert told.decisions[0].trial == "n512-B32-s0"


def test_a_story_has_the_plan(seeder: Seeder) -> None:
    told = story(seeder.store, now=later(seeder))
    assert (told.budget_gpu_hours, told.final_gpu_hours, told.target_gpu_hours) == (5000.0, 4000.0, 4000.0)
    assert (told.created_at, told.read_at) == (NOON, later(seeder))
    assert told.assumptions == (Assumption("tokens/s", "2000.0", "measured"),)
    sizes = [(each.rollouts_per_prompt, each.prompts_per_batch) for each in told.cells]
    assert sizes == sorted((n, B) for n, B, *_ in TRIALS)
    assert (told.cells[0].pilot_steps, told.cells[0].gpu_hours_per_step) == (40, 10.0)
    assert told.cells[0].pilot_reason == "among the best four"


def test_a_sweep_that_is_not_there_is_named(seeder: Seeder, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there are: sweep-1"):
        story(seeder.store, "sweep-9")
    with open_store(tmp_path / "empty.db") as store, pytest.raises(NotFoundError, match="rlplan sweep"):
        story(store)


def queries(store: Store, memory: Memory | None = None) -> int:
    return selects(store, lambda: story(store, memory=memory))


def test_the_number_of_queries_does_not_grow_with_the_trials(seeder: Seeder) -> None:
    few = queries(seeder.store)
    for seed in range(1, 40):
        trial = seeder.trial(8, 32, seed)
        seeder.begin(trial, 0)
        seeder.score(trial, 0, 0.2)
    assert queries(seeder.store) == few <= 20


def test_what_is_remembered_changes_nothing(seeder: Seeder) -> None:
    memory: Memory = {}
    now = at(1000)

    def same() -> bool:
        return story(seeder.store, now=now, memory=memory) == story(seeder.store, now=now)

    assert same()
    seeder.score(1, 3 * STEPS + 2, 0.65)
    assert same()
    seeder.settle(2, SegmentOutcome.COMMITTED)  # it started after the one that is still open
    seeder.move(2, TrialState.PAUSED)
    assert same()
    seeder.settle(1, SegmentOutcome.LOST, 3.0)
    seeder.move(1, TrialState.LOST)
    seeder.begin(2, 4 * STEPS)
    assert same()
    settings = {"pilot_gpu_hours": 10.0}
    seeder.sweep = samples.put(seeder.store, sweeps.create_sweep, None, samples.sweep(config=settings), now)
    seeder.decide("start", "the first of another sweep")
    assert same()
    assert len(story(seeder.store, now=now, memory=memory).decisions) == 1
