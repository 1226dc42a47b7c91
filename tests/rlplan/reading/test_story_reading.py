"""The story that the rows of a sweep tell, and what reading it costs."""

from sqlalchemy import event

from planner.store import Store, sweeps
from planner.store.curves import Memory
from planner.store.schema import SegmentOutcome
from planner.trials import TrialState
from rlplan.reading.story_reading import story
from rlplan.reading.sweep_reading import picture
from tests.planner.store import samples
from tests.planner.store.samples import at
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
    money = told.picture.money
    assert (money.by_outcome["failed"], money.by_charge, money.reserved) == (3.0, {"idle": 4.5}, 2 * HOURS)
    assert money.left == 1000.0 - money.spent - money.reserved
    assert [each.number for each in told.decisions] == list(range(1, told.picture.decisions + 1))
    assert told.decisions[0].seen == {"p": 0.5}
    assert told.decisions[0].trial == "n512-B32-s0"


def queries(store: Store) -> int:
    """Count what is asked of the database for a story."""
    asked: list[str] = []

    def count(*given: object) -> None:
        asked.append(str(given[2]))

    engine = store._engines.reader
    event.listen(engine, "before_cursor_execute", count)
    story(store)
    event.remove(engine, "before_cursor_execute", count)
    return len([each for each in asked if each.startswith("SELECT")])


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
