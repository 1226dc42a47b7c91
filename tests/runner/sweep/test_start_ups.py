"""What somebody else's trainer takes to start is measured, and then decides with."""

from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import select

from planner.policy.policies import open_policy
from planner.store.read_model import sweep_snapshot
from planner.store.schema import Decision, Segment, SegmentOutcome
from runner.ports.trial import SimulationChoice
from runner.sweep.prices import StartUps
from runner.sweep.state import SweepState
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import COSTS

SLOW = SimulationChoice(costs=COSTS.model_copy(update={"start_up_seconds": 60.0}))  # the plan has about 3
HOUR = 3600.0
OTHER = (("model", "large"),)


def slow(folder: Path, **changes: object) -> SimulatedSweep:
    given = {"choice": SLOW, "policy": "rlplan", "trainer": "standin", "every_steps": 50, **changes}
    return SimulatedSweep(folder / "rlplan.db", **given)


def segments(given: SimulatedSweep) -> list[Segment]:
    with given.store() as store, store.read() as session:
        return list(session.scalars(select(Segment).order_by(Segment.id)))


def test_what_was_measured_prices_the_later_segments(tmp_path: Path) -> None:
    given = slow(tmp_path)
    outcome = given.run(open_policy("rlplan"))
    ended = [each for each in segments(given) if each.outcome is SegmentOutcome.COMMITTED]
    told = [each.start_up_gpu_hours * HOUR for each in ended if each.start_up_gpu_hours is not None]
    assert outcome.overrun_gpu_hours == 0
    assert max(told) == pytest.approx(60, rel=0.1)
    known_at = min(each.ended_at for each in ended if each.start_up_gpu_hours is not None)
    later = [each for each in ended if each.started_at > known_at and (each.start_up_gpu_hours or 0.0) * HOUR > 50]
    assert later
    assert all(each.reserved_gpu_hours * HOUR > 60 for each in later)
    with given.store() as store, store.read() as session:
        board = SweepState(given.spec, sweep_snapshot(session, given.name))
        said = session.scalars(select(Decision).where(Decision.action == "start-up")).all()
    assert board.start_ups.typical * HOUR == pytest.approx(60, rel=0.1)  # a driver that takes over knows it
    assert said
    assert "beside its updates" in said[0].reason


@pytest.mark.parametrize(
    ("policy", "room"), [("rlplan", 0.05), ("rlplan", 0.3), ("rlplan", 1.0), ("asha", 0.3), ("full", 0.3)]
)
def test_start_ups_that_nobody_foresaw_do_not_pass_the_budget(tmp_path: Path, policy: str, room: float) -> None:
    very = SimulationChoice(costs=COSTS.model_copy(update={"start_up_seconds": 300.0}))
    given = slow(tmp_path, choice=very, policy=policy, room=room)
    with given.store() as store:
        outcome = given.driver(given.executor(), open_policy(policy), store, tick_seconds=0.5).run()
    # The driver hears of each of four workers within its tick.
    assert outcome.spent_gpu_hours + outcome.overrun_gpu_hours <= given.spec.pilot_gpu_hours + 4 * 0.5 / HOUR


def test_a_trainer_that_cannot_be_asked_to_save_is_not_ended_because_its_steps_take_twice_their_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text('name = "standin"\n[options]\ngated = false\nstops_on = "nothing"\n')
    times = {"seconds_per_update": 2.0, "seconds_per_rollout": 2.0, "start_up_seconds": 1.0}
    twice = COSTS.model_copy(update={name: by * getattr(COSTS, name) for name, by in times.items()})
    named = {"policy": "full", "trainer": str(tmp_path / "mine.toml"), "room": 3.0, "every_steps": 100, "budget": 0.5}
    given = slow(tmp_path, choice=SimulationChoice(costs=twice), **named)
    extended: list[tuple[int, float]] = []
    executor = given.executor()
    monkeypatch.setattr(executor, "extend", lambda *more: extended.append(more))
    outcome = given.drive(executor, tick_seconds=0.5)
    with given.store() as store, store.read() as session:
        said = session.scalars(select(Decision).where(Decision.action.in_(["start", "continue"])))
        granted = Counter((each.trial_id, each.seen["granted_to_step"]) for each in said)
    cut = granted - Counter((each.trial_id, each.to_step) for each in segments(given))
    assert (cut.total(), outcome.overrun_gpu_hours) == (0, 0.0)
    reserved = {each.id: each.reserved_gpu_hours * HOUR for each in segments(given)}
    assert extended  # and its worker knows of it, should it be cut off
    assert all(seconds > reserved[segment] for segment, seconds in extended)


def test_a_worker_that_holds_its_trial_is_expected_to_take_less() -> None:
    start_ups = StartUps({(): 1.0, OTHER: 2.0}, 2.0, measures=True)
    assert (start_ups.of(()), start_ups.of((), held=True), start_ups.of(OTHER)) == (1.0, 1.0, 2.0)
    start_ups.note((), 4.0, held=False)
    assert (start_ups.of(()), start_ups.of((), held=True)) == (4.0, 4.0)
    start_ups.note((), 0.6, held=True)
    assert start_ups.of((), held=True) == 0.6
    start_ups.note((), 0.0, held=True)
    assert (start_ups.of(()), start_ups.of((), held=True)) == (4.0, pytest.approx(0.4))  # a tenth at least
    assert start_ups.of(OTHER) == 8.0  # as many times the plan's as was measured of the others
    assert start_ups.of(OTHER, held=True) == pytest.approx(0.8)
    assert start_ups.typical == 8.0
    start_ups.at_least((), 0.5)  # one that was ended in vain is no shorter than that
    assert start_ups.of(()) == 4.0
    start_ups.at_least((), 30.0)
    assert start_ups.of(()) == 17.0
