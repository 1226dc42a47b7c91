"""What the simulated executor does beyond the port's promises: time, memory of workers, losses."""

from collections.abc import Sequence
from typing import Any

import pytest

from budgets.errors import InputError
from planner.replaying.fleet import Fleet
from runner.ports.executor import Began, Ended, Event, Failed, Gone, Progress
from runner.ports.simulation import Costs, Failures, SimulationChoice
from runner.simulation.executor import SimulatedExecutor
from runner.simulation.surface_world import SurfaceWorld
from tests.runner.simulation.faulty import FaultyExecutor
from tests.runner.simulation.worlds import trial, work

COSTS = Costs(
    seconds_per_update=8.0,
    seconds_per_rollout=1 / 16,  # 32 rollouts: 10 seconds an update
    spread=0.0,
    seconds_per_answer=0.0125,  # 400 answers: 5 seconds a validation, every second update
    start_up_seconds=100.0,
    save_seconds=1.0,
)
CHOICE = SimulationChoice(costs=COSTS)
CONFIG = trial(CHOICE)


def executor(workers: int = 2, **options: Any) -> FaultyExecutor:
    return FaultyExecutor(SurfaceWorld(CHOICE), workers, **options)


def drain(running: SimulatedExecutor, until: float = 1e7) -> list[Event]:
    events: list[Event] = []
    while new := running.wait(until):
        events += new
    return events


def only(kind: type[Any], events: Sequence[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_events_come_at_their_simulated_times() -> None:
    running = executor()
    running.assign(work(1, CONFIG, 3))
    seen = []
    while new := running.wait(1e6):
        seen += [(running.clock.seconds(), type(event), event.worker_seconds) for event in new]
    assert seen == [
        (0.0, Began, 0.0),
        (105.0, Progress, 105.0),  # start-up, step 0
        (130.0, Progress, 130.0),  # two updates and a validation
        (141.0, Progress, pytest.approx(140.0)),  # another update, without a score, and its checkpoint
        (141.0, Ended, 141.0),
    ]
    assert running.clock.seconds() == 1e6 + 141.0


def test_waiting_takes_no_longer_than_it_may() -> None:
    running = executor()
    running.assign(work(1, CONFIG, 3))
    running.wait(0.0)
    assert running.wait(50.0) == []
    assert running.clock.seconds() == 50.0
    (progress,) = running.wait(60.0)
    assert (type(progress), running.clock.seconds()) == (Progress, 105.0)


def test_a_worker_that_holds_the_trial_goes_on_without_a_start_up() -> None:
    running = executor(workers=1)
    running.assign(work(1, CONFIG, 2))
    drain(running, 1000.0)
    held = running.clock.seconds()
    running.assign(work(2, CONFIG, 4, from_step=2))
    (ended,) = only(Ended, drain(running, 1000.0))
    assert ended.worker_seconds - held == pytest.approx(25.0 + 1.0)
    running.assign(work(3, CONFIG, 2, trial=2))
    drain(running, 1000.0)
    lost_from_memory = running.clock.seconds()
    running.assign(work(4, CONFIG, 6, from_step=4))
    (ended,) = only(Ended, drain(running, 1000.0))
    assert ended.worker_seconds - lost_from_memory == pytest.approx(100.0 + 25.0 + 1.0)


def test_gathering_returns_what_happens_within_a_time_in_one_go() -> None:
    plain, gathered = executor(workers=8), executor(workers=8, gather_seconds=1000.0)
    for running in (plain, gathered):
        for number in range(8):
            running.assign(work(number, CONFIG, 20, trial=number))
    (*one_by_one,) = drain(plain)
    at_once = gathered.wait(1e6)
    assert gathered.clock.seconds() == 1000.0
    assert len(only(Ended, at_once)) == len(only(Ended, one_by_one)) == 8
    assert len(only(Progress, at_once)) == 8
    points = {
        name: {
            segment: [p for e in only(Progress, events) if e.segment == segment for p in e.points]
            for segment in range(8)
        }
        for name, events in (("plain", one_by_one), ("gathered", at_once))
    }
    assert points["plain"] == points["gathered"]


def test_a_segment_stopped_in_its_start_up_ends_where_it_began() -> None:
    running = executor(workers=1)
    running.assign(work(1, CONFIG, 50, from_step=4))
    running.wait(50.0)
    running.stop(1)
    events = drain(running, 1000.0)
    assert [type(event) for event in events] == [Ended]
    assert events[0].step == 4
    assert running.clock.seconds() == 1101.0


def test_a_stop_lets_a_failure_that_comes_first_happen() -> None:
    choice = SimulationChoice(costs=COSTS, failures=Failures(at_step=3))
    running = SimulatedExecutor(SurfaceWorld(choice))
    running.assign(work(1, trial(choice), 50))
    running.wait(0.0)
    running.wait(10.0)
    while running.clock.seconds() < 135.0:  # in update 3
        running.wait(135.0 - running.clock.seconds())
    running.stop(1)
    (failed,) = drain(running)
    assert (type(failed), failed.kind) == (Failed, "nan")


def test_most_seconds_count_from_the_end_of_the_last_segment() -> None:
    running = executor(workers=1)
    running.assign(work(1, CONFIG, 1000, most_seconds=150.0))
    (ended,) = only(Ended, drain(running, 1e4))
    # 105 to step 0, 10 an update and 5 more for each second one: 115, 130, 140, 155.
    assert (ended.step, ended.worker_seconds) == (4, 156.0)
    waited = running.clock.seconds() - ended.worker_seconds
    running.assign(work(2, CONFIG, 1000, from_step=4, most_seconds=waited + 15.0))
    (second,) = only(Ended, drain(running, 1e4))
    assert (second.step, second.worker_seconds - waited) == (6, 182.0)  # 166, 181 and the checkpoint


def test_a_lost_node_takes_its_workers_along_and_their_number_falls() -> None:
    running = executor(workers=4)
    for number in range(3):
        running.assign(work(number, CONFIG, 50, trial=number))
    drain_until = running.wait(0.0)
    assert len(drain_until) == 3
    running.wait(120.0)
    lost_at = running.clock.seconds()
    running.lose_workers(2)
    assert running.workers == 2
    events = running.wait(0.0)
    failed, gone = only(Failed, events), only(Gone, events)
    assert [(event.segment, event.kind) for event in failed] == [(0, "lost"), (1, "lost")]
    assert [event.worker for event in gone] == [event.worker for event in failed]
    assert all(event.worker_seconds == lost_at for event in failed + gone)
    running.assign(work(10, CONFIG, 50, trial=0))
    with pytest.raises(InputError, match="all of 2 workers are busy"):
        running.assign(work(11, CONFIG, 50, trial=1))
    running.bring_back(2)
    assert running.workers == 4
    running.assign(work(12, CONFIG, 50, trial=1))
    rest = drain(running)
    assert {event.segment for event in only(Ended, rest)} == {2, 10, 12}
    assert not {event.worker for event in rest} & {event.worker for event in gone}


def test_a_late_result_of_a_lost_worker_comes_when_it_would_have_come() -> None:
    running = executor(workers=1)
    running.assign(work(1, CONFIG, 3))
    running.wait(0.0)
    running.wait(110.0)
    running.lose_workers(1, late=True)
    assert [type(event) for event in running.wait(0.0)] == [Failed, Gone]
    (late,) = running.wait(1e6)
    assert (type(late), late.segment, late.step, late.worker_seconds) == (Ended, 1, 3, 141.0)
    assert running.clock.seconds() == 141.0


def test_workers_lost_at_a_rate_are_replaced_and_the_trial_can_go_on_in_the_end() -> None:
    choice = SimulationChoice(costs=COSTS, failures=Failures(lost_per_gpu_hour=8.0))
    running = SimulatedExecutor(SurfaceWorld(choice), 1)
    outcomes: list[Event] = []
    for attempt in range(60):
        running.assign(work(attempt, trial(choice), 20, attempt=attempt))
        events = drain(running)
        outcome = only(Ended, events) + only(Failed, events)
        assert len(outcome) == 1
        assert len(only(Gone, events)) == len(only(Failed, events))
        points = [point.optimizer_step for event in only(Progress, events) for point in event.points]
        assert points == sorted(set(points))
        outcomes += outcome
    lost, ended = only(Failed, outcomes), only(Ended, outcomes)
    assert {event.kind for event in lost} == {"lost"}
    assert min(len(lost), len(ended)) > 10
    assert len({event.worker for event in lost}) == len(lost)


def test_the_time_of_day_jumps_and_measured_seconds_do_not() -> None:
    running = executor()
    before = running.clock.now()
    running.jumping.jumped = -3600.0
    running.wait(60.0)
    assert (running.clock.now() - before).total_seconds() == -3540.0
    assert running.clock.seconds() == 60.0


def test_interrupted_and_moved_trials_get_the_points_of_undisturbed_ones() -> None:
    def points(events: list[Event]) -> dict[int, object]:
        return {p.optimizer_step: p for e in only(Progress, events) for p in e.points if p.score is not None}

    whole, cut = executor(workers=1), executor(workers=2)
    whole.assign(work(1, CONFIG, 12))
    cut.assign(work(1, CONFIG, 5))
    events = drain(cut, 1e4)
    cut.assign(work(2, CONFIG, 9, from_step=5))
    events += cut.wait(0.0)
    events += cut.wait(20.0)
    cut.lose_workers(1)
    events += drain(cut, 1e4)
    cut.assign(work(3, CONFIG, 12, from_step=5, attempt=1))
    events += drain(cut, 1e4)
    assert points(events) == points(drain(whole))


def test_a_segment_is_not_taken_twice() -> None:
    running = executor()
    running.assign(work(1, CONFIG, 3))
    with pytest.raises(InputError, match="segment 1 is running already"):
        running.assign(work(1, CONFIG, 3))


def test_idle_workers_are_reused_the_longest_idle_first() -> None:
    fleet = Fleet(3)
    first, second = fleet.take("a", 0.0), fleet.take("b", 0.0)
    fleet.park(second, "b", 4, 0.0)
    fleet.park(first, "a", 4, 0.0)
    third = fleet.take("c", 1.0)
    assert third not in (first, second)  # a slot without a worker comes before another trial's memory
    assert fleet.take("d", 1.0) is second
    assert fleet.take("a", 1.0) is first
    fleet.lose(third)
    assert fleet.take("c", 2.0).name == "worker-4"


def test_a_cluster_without_workers_is_refused() -> None:
    with pytest.raises(InputError, match="0 workers: give at least 1"):
        SimulatedExecutor(workers=0)
