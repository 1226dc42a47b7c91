"""What all curves together let one believe of a sweep, and how it is marked."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from planner.belief.forecasts import PLACES, Band
from planner.store import open_store
from planner.store.control import hold_lease, request, take, waiting
from planner.store.schema import RequestKind, Segment, SegmentOutcome, SweepStatus
from planner.store.sweeps import sweep_named
from planner.view import ScorePoint, TrialState, has_curve
from rlplan.reading.beliefs import beliefs, believed, mark
from rlplan.reading.recommendation import Stored, recommended, stored
from rlplan.reading.story import Beliefs
from runner.sweep.state import SweepState
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import DRIVER, STEPS, Seeder, later


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(ended(tmp_path_factory.mktemp("believed") / "rlplan.db"))


@pytest.fixture(scope="module")
def found(database: str) -> Beliefs:
    with open_store(database, read_only=True) as store:
        return beliefs(store)


@pytest.fixture
def known(database: str) -> Stored:
    with open_store(database, read_only=True) as store:
        return stored(store, None)


def scored(board: SweepState) -> list[int]:
    return [number for number, trial in board.trials.items() if has_curve(trial)]


def test_the_answer_is_the_one_that_recommend_gives(database: str, found: Beliefs) -> None:
    assert found.recommended == recommended(database, None)
    assert found.why_not is None


def test_every_curve_has_a_band_from_nothing_to_the_target(known: Stored, found: Beliefs) -> None:
    assert set(found.bands) == set(scored(known.board))
    for band in found.bands.values():
        x, median, low, high = (np.array(getattr(band, name)) for name in Band.__dataclass_fields__)
        assert len(x) == PLACES
        assert (x[0], x[-1]) == (0.0, pytest.approx(known.board.spec.target_gpu_hours))
        assert (np.diff(x) > 0).all()
        assert (np.diff([np.zeros_like(x), low, median, high, np.ones_like(x)], axis=0) >= 0).all()


def test_bands_lie_around_the_scores_and_widen_towards_the_target(known: Stored, found: Beliefs) -> None:
    inside = []
    for number, band in found.bands.items():
        scores = known.board.trials[number].scores
        x = [seen.gpu_hours for seen in scores]
        low, high = np.interp(x, band.gpu_hours, band.low), np.interp(x, band.gpu_hours, band.high)
        room = [2 * (seen.standard_error or 0.0) for seen in scores]
        inside += [
            under - more <= seen.score <= over + more
            for seen, under, over, more in zip(scores, low, high, room, strict=True)
        ]
        widths = np.array(band.high) - np.array(band.low)
        assert widths[-1] > np.interp(x[-1], band.gpu_hours, widths)
    assert np.mean(inside) > 0.8


def test_a_run_that_has_collapsed_is_cut_and_stays_where_it_fell(known: Stored) -> None:
    number = scored(known.board)[0]
    scores = known.board.trials[number].scores
    last = scores[-1]
    fallen = [ScorePoint(last.step + i, (1 + 0.1 * i) * last.gpu_hours, 0.01, last.standard_error) for i in range(1, 4)]
    known.board.put(number, scores=(*scores, *fallen))
    found = believed(known)
    assert found.cuts == {number: fallen[0].gpu_hours}
    band = found.bands[number]
    after = [place for place, x in enumerate(band.gpu_hours) if x > fallen[0].gpu_hours]
    assert after
    assert [(band.low[place], band.high[place]) for place in after] == [(0.01, 0.01)] * len(after)
    assert np.interp(scores[len(scores) // 2].gpu_hours, band.gpu_hours, band.median) > 0.1


def test_where_nothing_was_seen_it_says_why_not(known: Stored) -> None:
    for number in known.board.trials:
        known.board.put(number, scores=(), step=0)
    found = believed(replace(known, answer=None))
    assert (found.recommended, dict(found.bands), dict(found.cuts)) == (None, {}, {})
    assert "has a score after its first update" in str(found.why_not)


def marked(seeder: Seeder, now: datetime) -> str:
    with seeder.store.read() as session:
        return mark(session, sweep_named(session, seeder.sweep).id, now=now)


def began(seeder: Seeder) -> None:
    """A worker takes the open segment of a trial."""
    with seeder.store.write() as session:
        segment = session.get_one(Segment, seeder.open[1])
        segment.worker, segment.started_at = "w2", seeder.now()


def again(seeder: Seeder) -> None:
    """A step that was scored before is scored again by a later attempt."""
    seeder.score(1, 2 * STEPS, 0.1, attempt=2)


CHANGES: dict[str, Callable[[Seeder], object]] = {
    "a point": lambda seeder: seeder.score(1, 3 * STEPS + 2, 0.6),
    "a point again": again,
    "a decision": lambda seeder: seeder.decide("stop", "there is nothing to gain"),
    "a segment": lambda seeder: seeder.begin(3, 2 * STEPS),
    "a worker": began,
    "an end": lambda seeder: seeder.settle(1, SegmentOutcome.COMMITTED),
    "a state": lambda seeder: seeder.move(3, TrialState.PRUNED),
    "a fit": lambda seeder: seeder.fit(1, 0.7, 0.5),
    "a charge": lambda seeder: seeder.charge("idle", 1.0),
    "a recommendation": lambda seeder: seeder.recommend(),
    "a trial": lambda seeder: seeder.trial(8, 32, seed=5),
    "the end of the sweep": lambda seeder: seeder.end(SweepStatus.FINISHED),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_page_shows_changes_the_mark(seeder: Seeder, change: str) -> None:
    now = later(seeder, 30.0)
    before = marked(seeder, now)
    CHANGES[change](seeder)
    assert marked(seeder, now) != before


def test_what_is_asked_of_a_sweep_changes_the_mark_twice(seeder: Seeder) -> None:
    now = later(seeder, 30.0)
    marks = [marked(seeder, now)]
    with seeder.store.write() as session:
        request(session, seeder.sweep, RequestKind.PAUSE, "me", now)
    marks.append(marked(seeder, now))
    with seeder.store.write() as session:
        sweep_id = sweep_named(session, seeder.sweep).id
        take(session, waiting(session, sweep_id)[0], now)
    marks.append(marked(seeder, now))
    assert len(set(marks)) == 3


def test_a_heartbeat_changes_nothing_but_that_there_is_none_does(seeder: Seeder) -> None:
    now = later(seeder, 30.0)
    before = marked(seeder, now)
    with seeder.store.write() as session:
        hold_lease(session, sweep_named(session, seeder.sweep).id, DRIVER, now)
    assert marked(seeder, now) == before
    assert marked(seeder, later(seeder, 300.0)) != before
