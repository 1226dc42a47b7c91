"""The story that the rows of a sweep tell, what reading it costs, and its document."""

from sqlalchemy import event

from planner.store import Store, sweeps
from planner.store.curves import Memory
from planner.store.schema import SegmentOutcome
from planner.view import ScorePoint, TrialState
from rlplan.reading.story import story
from rlplan.reading.sweep_picture import ScoreData
from rlplan.wording.answers import plain
from tests.planner.store import samples
from tests.planner.store.samples import at
from tests.rlplan.sweep_rows import STEPS, Seeder


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


def test_what_is_no_finite_number_is_null() -> None:
    score = plain(ScoreData(ScorePoint(1, float("inf"), float("nan"), 0.01)))
    assert score == {"step": 1, "gpu_hours": None, "score": None, "score_standard_error": 0.01}
