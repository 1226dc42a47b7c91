"""What the simulated executor does beyond the port's promises: time, memory of workers, losses."""

from collections.abc import Sequence
from typing import Any

import pytest

from budgets.errors import InputError
from runner.ports.executor import Began, Ended, Event, Failed, Gone, Progress
from runner.ports.simulation import Costs, SimulationChoice
from runner.simulation.executor import SimulatedExecutor
from runner.simulation.world import World
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
    return FaultyExecutor(World(CHOICE), workers, **options)


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
    running.assign(work(2, CONFIG, 3, trial=2))
    running.wait(0.0)
    assert running.wait(50.0) == []
    assert running.clock.seconds() == 1e6 + 191.0  # waiting takes no longer than it may


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
