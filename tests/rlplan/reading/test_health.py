"""The flags of a story: what a careful reader must know of a sweep, good and bad."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from planner.store.schema import Plan, SegmentOutcome, Sweep, SweepStatus
from planner.view import Configuration, ScorePoint, TrialState
from rlplan.reading.health import Flag, Priced, collapsed_from, evidence, flags, measured_price
from rlplan.reading.story import story
from rlplan.reading.sweep_picture import Forecast, SegmentRow, TrialRow
from rlplan.web.sections import answer_section
from tests.planner.store.samples import NOON
from tests.rlplan.sweep_rows import Seeder, later


def told(seeder: Seeder, seconds: float = 2.0) -> list[str]:
    return lines(story(seeder.store, now=later(seeder, seconds)).flags)


def lines(found: Iterable[Flag]) -> list[str]:
    return [f"{flag.health}: {flag.text}" for flag in found]


def has(found: Iterable[str], *parts: str) -> bool:
    return any(all(part in line for part in parts) for line in found)


def test_a_driver_is_alive_or_silent_or_gone(seeder: Seeder) -> None:
    assert has(told(seeder, 2.0), "good:", "its driver (process 4711 on node-7) is alive")
    assert has(told(seeder, 60.0), "mind:", "has been silent for 60 s")
    assert has(
        told(seeder, 600.0), "bad:", "is gone, last heard of 10 min ago: go on with `rlplan resume sweep-1 --db "
    )
    seeder.end(SweepStatus.INTERRUPTED)
    assert has(told(seeder), "mind:", "it was stopped before its end")
    with seeder.store.write() as session:
        session.execute(update(Sweep).values(status=SweepStatus.FAILED))
    assert has(told(seeder), "bad:", "no trial got far enough")


def test_failures_are_told_by_class_with_the_commonest_reason(seeder: Seeder) -> None:
    assert has(
        told(seeder), "bad: one trial has failed with out-of-memory (n1024-B1024-s0): torch.OutOfMemoryError: 81 GiB"
    )
    for seed, tail in enumerate(("nan in the loss", "nan in the loss", "no such file"), start=1):
        trial = seeder.trial(8, 32, seed)
        seeder.move(trial, TrialState.RUNNING)
        seeder.move(trial, TrialState.FAILED, failure_class="diverged", failure_tail=f"Traceback\n{tail}\n")
    assert has(told(seeder), "3 trials have failed with diverged", "2 of them with: nan in the loss")
    seeder.move(1, TrialState.LOST)
    assert has(told(seeder), "mind: the workers of n512-B32-s0 were lost")


def test_the_budget_is_kept_or_not(seeder: Seeder) -> None:
    assert has(told(seeder), "good: within budget: 326 of 1,000 GPU-hours spent")
    with seeder.store.write() as session:
        session.execute(update(Plan).values(pilot_gpu_hours=300.0))
        session.get_one(Sweep, 1).config = {"pilot_gpu_hours": 300.0}
    assert has(told(seeder), "bad: the pilots took 86.5 GPU-hours (28.8 %) more than the 300 they had")


def test_gpu_hours_that_trained_nothing_are_shared_out(seeder: Seeder) -> None:
    assert has(
        told(seeder), "good: 2.3 % of the GPU-hours trained nothing (0.9 % in segments that failed", "1.4 % idle"
    )
    seeder.charge("idle", 50.0)
    assert has(told(seeder), "mind: 15.3 % of the GPU-hours trained nothing")
    seeder.charge("lost", 100.0)
    assert has(told(seeder), "bad: 33.1 % of the GPU-hours trained nothing", "21.0 % lost")


def accounts(seeder: Seeder, ran: Iterable[SegmentRow], slots: float) -> list[str]:
    known = story(seeder.store, now=later(seeder))
    return lines(flags(known.picture, tuple(ran), (), {}, 100.0, slots, "rlplan.db"))


def stretch(hours_from: float, hours_to: float, charged: float | None, number: int = 1) -> SegmentRow:
    start, end = (NOON + timedelta(hours=each) for each in (hours_from, hours_to))
    return SegmentRow(1, "n8-B32-s0", number, 1, 0, 10, 9.0, charged, "w1", start, end, SegmentOutcome.COMMITTED)


def test_the_time_of_workers_is_in_the_accounts(seeder: Seeder) -> None:
    whole = [stretch(0, 1, 0.5), stretch(1, 2, 1.0, 2)]  # the first waited half an hour for its worker's process
    assert has(accounts(seeder, whole, 1), "good: every second is charged: workers lived 1.50 GPU-hours")
    gap = [stretch(0, 1, 1.0), stretch(1.5, 2.5, 1.0, 2)]
    assert has(accounts(seeder, gap, 1), "mind:", "20.0 % of their time is in no account")
    assert has(accounts(seeder, whole, 8), "good: every second") is False  # eight GPUs, and the hours of one
    assert has(accounts(seeder, [stretch(0, 1, None)], 1), "bad: 1 segments have ended and were charged nothing")


def run(
    scores: Iterable[tuple[float, float]], n: int = 8, error: float | None = 0.01, mean: float | None = None
) -> TrialRow:
    made = tuple(ScorePoint(10 * i, hours, score, error) for i, (hours, score) in enumerate(scores))
    forecast = None if mean is None else Forecast(mean, mean - 0.1, mean + 0.1, 0.9, "rising", 100.0, 0.5)
    return TrialRow(1, f"n{n}-B32-s0", n, 32, 1e-6, 0, TrialState.PAUSED, 1, 90, 100, 1.0, made, forecast)


RISING = [(float(i), 0.1 + 0.05 * i) for i in range(10)]  # GPU-hours, score


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        (0.1, "good: prices hold: a step takes 1 × the planned"),
        (0.04, "mind: prices are off: a step takes 2.5 × the planned GPU-hours"),
        (0.25, "so the final run has more updates than planned"),
    ],
)
def test_prices_are_compared_with_the_plan(planned: float, said: str) -> None:
    assert measured_price(run(RISING)) == pytest.approx(0.1)
    prices = {Configuration(8, 32): Priced(planned, planned / 2, planned * 2)}
    assert has(lines(evidence([run(RISING)], prices, 10.0)), said)


def test_noise_is_compared_with_what_lies_between_the_best() -> None:
    def noisy(error: float | None, gap: float) -> bool:
        trials = [run(RISING, 8, error, 0.8), run(RISING, 16, error, 0.8 - gap), run(RISING, 32, error, 0.1)]
        return has(lines(evidence(trials, {}, 10.0)), "mind: a single validation has a standard error of 0.030")

    assert noisy(0.03, 0.01)
    assert not noisy(0.03, 0.05)  # they can be told apart
    assert not noisy(0.01, 0.001)  # within what seeds differ by anyway
    assert has(lines(evidence([run(RISING, error=None)], {}, 10.0)), "mind: the scores come without a standard error")


def test_collapses_are_counted() -> None:
    fallen = [*RISING, (10.0, 0.0), (11.0, 0.0)]
    assert collapsed_from(run(fallen).scores) == 10.0
    assert collapsed_from(run(RISING).scores) is None
    assert collapsed_from(()) is None
    assert has(
        lines(evidence([run(RISING), run(fallen, 16)], {}, 10.0)), "mind: 1 of 2 runs has collapsed (n16-B32-s0)"
    )


def test_a_prediction_that_reaches_far_is_told() -> None:
    assert has(lines(evidence([run(RISING)], {}, 90.0)), "mind: the final run of 90 GPU-hours is 10 × as long")
    assert not has(lines(evidence([run(RISING)], {}, 60.0)), "as long")
    assert lines(evidence([], {}, 60.0)) == []


def test_what_goes_on_with_a_sweep_names_its_database_as_it_is_typed_here(
    seeder: Seeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeder.end(SweepStatus.INTERRUPTED)
    folder = Path(seeder.store.location).parent
    for here, flag in (
        (Path(__file__).parent, f" --db {seeder.store.location}"),
        (folder.parent, f" --db {folder.name}/rlplan.db"),
        (folder, ""),
    ):
        monkeypatch.chdir(here)
        found = story(seeder.store, now=later(seeder))
        assert has(lines(found.flags), f"go on with `rlplan resume sweep-1{flag}`")
        assert answer_section(found, None)["what_to_do"].endswith(f": rlplan retry sweep-1{flag}")
