"""The story that the rows of a sweep tell, what reading it costs, and its document."""

import json

from sqlalchemy import event

from planner.pooling.bands import Band
from planner.store import Store, sweeps
from planner.store.curves import Memory
from planner.store.schema import SegmentOutcome
from planner.trials import TrialState
from rlplan.reading.story import Beliefs
from rlplan.reading.story_reading import story
from rlplan.reading.sweep_data import StoryData
from rlplan.wording.documents import plain
from tests.planner.store import samples
from tests.planner.store.samples import at
from tests.rlplan.sweep_rows import STEPS, Seeder, later


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


def test_what_is_no_finite_number_is_null(seeder: Seeder) -> None:
    told = story(seeder.store, now=later(seeder))
    first = told.picture.trials[0].id
    band = Band((0.0, float("inf")), (0.5, float("nan")), (0.4, 0.4), (0.6, 0.6))
    beliefs = Beliefs(None, "nothing was seen", {first: band}, {first: float("nan")})
    data = plain(StoryData(told.picture, told, beliefs))
    assert data["trials"][0]["band"]["gpu_hours"] == [0.0, None]
    assert data["trials"][0]["collapsed_from_gpu_hours"] is None
    assert data["why_no_answer"] == "nothing was seen"
    json.dumps(data, allow_nan=False)
