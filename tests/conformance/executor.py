"""What every executor promises; an executor's test module takes these tests in and gives `new_executor` and `works`.

`new_executor(workers)` returns an executor with so many workers, which the module's fixture closes in the end; `works`
is a `Works`. Nothing here depends on how long anything takes: `patience` only bounds a test that would hang.
"""

from itertools import pairwise

import pytest

from budgets.errors import InputError
from runner.ports.executor import Began, Ended, Failed, Gone, Progress, Work
from tests.conformance.works import FAR, NewExecutor, Watched, Works, in_order, scored, steps


def test_a_segment_begins_makes_points_and_ends(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(1), works)
    work = works(to_step=6)
    (ended,) = watched.run(work)
    assert isinstance(ended, Ended)
    assert ended.step == 6
    assert ended.checkpoint.startswith(work.folder)
    kinds = [type(event) for event in watched.events]
    assert kinds[0] is Began
    assert kinds[-1] is Ended
    assert set(kinds[1:-1]) == {Progress}
    points = watched.points(work)
    assert in_order(steps(points))
    assert len(set(steps(points))) == len(points)
    assert scored(points) == [0, 2, 4, 6]
    assert points[-1].optimizer_step == 6
    for before, after in pairwise(points):
        assert after.rollouts - before.rollouts == 32 * (after.optimizer_step - before.optimizer_step)
        assert after.gpu_hours > before.gpu_hours


def test_a_trial_goes_on_where_its_last_segment_ended(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(1), works)
    first, second, third = works(to_step=3), works(from_step=3, to_step=7), works(from_step=7, to_step=8)
    for work in (first, second, third):
        (ended,) = watched.run(work)
        assert ended.step == work.to_step
    assert scored(watched.points(first)) == [0, 2]
    assert scored(watched.points(second)) == [4, 6]
    assert scored(watched.points(third)) == [8]
    together = [point for work in (first, second, third) for point in watched.points(work)]
    assert in_order(steps(together))
    assert len(set(steps(together))) == len(together)
    assert together[-1].rollouts == 8 * 32
    assert in_order([point.gpu_hours for point in together])


def test_a_trial_goes_on_after_another_one_has_had_its_worker(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(1), works)
    undisturbed, interrupted = works(trial=1, to_step=4), works(trial=2, to_step=2)
    goes_on = works(trial=2, from_step=2, to_step=4)
    assert [watched.run(work)[0].step for work in (interrupted, undisturbed, goes_on)] == [2, 4, 4]
    assert scored(watched.points(interrupted)) + scored(watched.points(goes_on)) == [0, 2, 4]
    again = Watched(new_executor(1), works)
    alone = works(trial=3, to_step=4, config=undisturbed.config | {"seed": 2})
    again.run(alone)
    halves = watched.points(interrupted) + watched.points(goes_on)
    assert [p.score for p in halves if p.score is not None] == [
        p.score for p in again.points(alone) if p.score is not None
    ]


def test_segments_run_at_once_on_workers_of_their_own(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(2), works)
    assert watched.executor.workers == 2
    both = works(trial=1, to_step=FAR), works(trial=2, to_step=FAR)
    for work in both:
        watched.executor.assign(work)
    watched.until(lambda: all(watched.of(Progress, work) for work in both))
    workers = {event.worker for work in both for event in watched.of(Began, work)}
    assert len(workers) == 2
    with pytest.raises(InputError, match="2 workers"):
        watched.executor.assign(works(trial=3))
    for work in both:
        watched.executor.stop(work.segment)
    watched.until(watched.over(*both))
    assert all(
        isinstance(event, Ended) for work in both for event in watched.of(Ended, work) + watched.of(Failed, work)
    )


def test_a_stopped_segment_is_saved_and_goes_on_later(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(1), works)
    work = works(to_step=FAR)
    watched.executor.assign(work)
    watched.until(lambda: watched.points(work))
    watched.executor.extend(work.segment, 1e6)
    watched.executor.stop(work.segment)
    watched.executor.stop(work.segment)
    watched.until(watched.over(work))
    watched.executor.extend(work.segment, 1e6)  # it is over
    (ended,) = watched.of(Ended, work)
    assert 0 <= ended.step < FAR
    assert watched.points(work)[-1].optimizer_step == ended.step
    rest = works(from_step=ended.step, to_step=ended.step + 2)
    (end_of_rest,) = watched.run(rest)
    assert end_of_rest.step == ended.step + 2
    assert steps(watched.points(rest))[0] > ended.step


def test_a_worker_that_hangs_is_killed_and_another_takes_the_next_segment(
    new_executor: NewExecutor, works: Works
) -> None:
    watched = Watched(new_executor(1), works)
    work = works(to_step=FAR)
    watched.executor.assign(work)
    watched.until(lambda: watched.points(work))
    watched.executor.kill(work.segment, "it says nothing")
    watched.until(watched.over(work))
    (failed,), (began,) = watched.of(Failed, work), watched.of(Began, work)
    assert (failed.kind, failed.worker) == ("hang", began.worker)
    assert "it says nothing" in failed.message
    watched.executor.kill(work.segment, "it is over")
    (ended,) = watched.run(works(trial=2, to_step=2))
    assert ended.worker != began.worker
    assert [event.worker for event in watched.of(Gone)] == [began.worker]


def test_stopping_what_does_not_run_is_passed_over(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(1), works)
    work = works(to_step=2)
    watched.executor.stop(work.segment)
    assert watched.run(work)[0].step == 2
    watched.executor.stop(work.segment)
    assert watched.run(works(from_step=2, to_step=4))[0].step == 4


def test_a_segment_out_of_time_ends_after_the_update_that_reaches_it(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(1), works)
    (ended,) = watched.run(works(to_step=FAR, most_seconds=1e-6))
    assert (type(ended), ended.step) == (Ended, 1)
    (ended,) = watched.run(works(from_step=1, to_step=FAR, most_seconds=1e-6))
    assert (type(ended), ended.step) == (Ended, 2)
    (ended,) = watched.run(works(from_step=2, to_step=4))
    assert ended.step == 4


@pytest.mark.parametrize("kind", ["nan", "out-of-memory"])
def test_a_trial_that_fails_says_why_and_frees_its_worker(new_executor: NewExecutor, works: Works, kind: str) -> None:
    watched = Watched(new_executor(1), works)
    fails = works(trial=1, to_step=6, fail=kind)
    (failed,) = watched.run(fails)
    assert isinstance(failed, Failed)
    assert failed.kind == kind
    assert "update 3" in failed.message
    assert failed.worker == watched.of(Began, fails)[0].worker
    assert max(steps(watched.points(fails))) <= 2
    (ended,) = watched.run(works(trial=2, to_step=2))
    assert ended.step == 2


def test_a_trial_that_cannot_be_run_as_configured_fails_as_input(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(1), works)
    sound = works()
    for key, value in (("growth", "4x"), ("rollouts_per_prompt", 1)):
        (failed,) = watched.run(works(config=sound.config | {key: value}))
        assert (type(failed), failed.kind) == (Failed, "input")
        assert key in failed.message
    assert watched.run(works(trial=2, to_step=2))[0].step == 2


def test_what_can_never_run_is_refused(new_executor: NewExecutor, works: Works) -> None:
    executor = new_executor(1)
    with pytest.raises(InputError, match="GPU"):
        executor.assign(works(gpus=4096.0))
    assert not executor.wait(0.0)


def test_every_second_of_a_worker_is_reported(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(1), works)
    clock = watched.executor.clock
    first, second = works(to_step=4), works(from_step=4, to_step=6)
    assigned = clock.seconds()
    (end_of_first,) = watched.run(first)
    idle_from = clock.seconds()
    while clock.seconds() < idle_from + works.pause:
        watched.events += watched.executor.wait(works.pause)
    idle_to = clock.seconds()
    (end_of_second,) = watched.run(second)
    over = clock.seconds()
    (began,), (began_again,) = watched.of(Began, first), watched.of(Began, second)
    assert began_again.worker == began.worker  # an idle worker lives on
    reported = [event.worker_seconds for event in watched.events]
    assert in_order(reported)
    assert end_of_first.worker_seconds > began.worker_seconds
    # A second of slack in a million for two clocks of one machine.
    assert began_again.worker_seconds - end_of_first.worker_seconds >= (idle_to - idle_from) * (1 - 1e-6)
    assert end_of_second.worker_seconds - began.worker_seconds <= (over - assigned) * (1 + 1e-6)
    watched.close()
    (gone,) = watched.of(Gone)
    assert gone.worker == began.worker
    assert gone.worker_seconds >= end_of_second.worker_seconds


def test_closing_ends_every_worker_and_every_segment(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(2), works)
    done, runs = works(trial=1, to_step=2), works(trial=2, to_step=FAR)
    watched.executor.assign(runs)
    watched.run(done)
    watched.until(lambda: watched.of(Progress, runs))
    watched.close()
    (failed,) = watched.of(Failed)
    assert (failed.segment, failed.kind) == (runs.segment, "lost")
    assert {event.worker for event in watched.of(Gone)} >= {event.worker for event in watched.of(Began)}
    for worker in {event.worker for event in watched.of(Began)}:
        of_it = [event for event in watched.events if event.worker == worker]
        assert [type(event) for event in of_it].index(Gone) == len(of_it) - 1
        assert in_order([event.worker_seconds for event in of_it])
    assert not watched.executor.close()
    assert not watched.executor.wait(0.0)
    with pytest.raises(InputError, match="closed"):
        watched.executor.assign(works(trial=3))


def test_each_segment_is_over_exactly_once(new_executor: NewExecutor, works: Works) -> None:
    watched = Watched(new_executor(2), works)
    waiting = [works(trial=t, to_step=2 + t % 3, fail="nan" if t % 3 == 2 else None) for t in range(1, 6)]
    given: list[Work] = []
    while waiting or not watched.over(*given)():
        over = {event.segment for event in watched.of(Ended) + watched.of(Failed)}
        running = sum(work.segment not in over for work in given)
        while waiting and running < watched.executor.workers:
            given.append(waiting.pop(0))
            watched.executor.assign(given[-1])
            running += 1
        seen = len(watched.events)
        watched.until(lambda seen=seen: len(watched.events) > seen)
    watched.close()
    for work in given:
        assert len(watched.of(Began, work)) == 1
        assert len(watched.of(Ended, work)) + len(watched.of(Failed, work)) == 1
        kind = Failed if work.trial % 3 == 2 else Ended
        (over_as,) = watched.of(kind, work)
        last = max(i for i, event in enumerate(watched.events) if getattr(event, "segment", None) == work.segment)
        assert watched.events[last] is over_as
    for worker in {event.worker for event in watched.of(Began)}:
        assert in_order([event.worker_seconds for event in watched.events if event.worker == worker])
