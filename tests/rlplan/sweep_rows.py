"""Seeded sweeps in a database, as a driver would have written them."""

import math
from copy import deepcopy
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy.orm import Session

from planner.store import Store, open_store, results, sweeps
from planner.store.control import Driver, end_lease, take_lease
from planner.store.schema import Charge, Fit, Point, SegmentOutcome, SweepStatus
from planner.store.sweeps import sweep_named
from planner.view import TrialState
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at

DRIVER = Driver("driver-1", "node-7", 4711)
SETTINGS = {"policy": "rlplan", "seed": 0, "search": "tpe", "target_gpu_hours": 4000.0, "pilot_gpu_hours": 1000.0}
# n, B, seed, segments that were committed, asymptote, P(best), the state in the end.
TRIALS = (
    (512, 32, 0, 3, 0.74, 0.62, TrialState.RUNNING),
    (128, 64, 0, 3, 0.71, 0.27, TrialState.RUNNING),
    (64, 128, 0, 2, 0.69, 0.10, TrialState.PAUSED),
    (32, 32, 0, 2, 0.55, 0.004, TrialState.PRUNED),
    (16, 128, 0, 1, 0.50, 0.0002, TrialState.PRUNED),
    (1024, 1024, 0, 0, 0.0, None, TrialState.FAILED),
    (8, 32, 0, 0, 0.0, None, TrialState.PLANNED),
)
STEPS = 10  # of a segment
HOURS = 30.0  # of a segment


class Seeder:
    """Writes a sweep row by row; the clock goes on a minute with each."""

    def __init__(self, store: Store, **settings: Any) -> None:
        self.store = store
        self.minutes = 0.0
        hardware = {"gpu": "h100", "gpus": 64, "gpus_per_trial": 8}
        plan = samples.plan(hardware=hardware, config={"proposal": {"baseline": "n=128,B=64 or n=8,B=128"}})
        sizes = {(n, B) for n, B, *_ in TRIALS}
        candidates = [samples.candidate(i + 1, n, B, pilot_steps=40) for i, (n, B) in enumerate(sorted(sizes))]
        store.save_plan(plan, candidates, created_at=NOON)
        self.candidates = {(c.rollouts_per_prompt, c.prompts_per_batch): c.id for c in store.plan().candidates}
        self.sweep = samples.put(
            store, sweeps.create_sweep, None, samples.sweep(seed=0, config=SETTINGS | settings), NOON
        )
        self.segments: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.sizes: dict[int, tuple[int, int]] = {}
        self.drive()

    def now(self) -> datetime:
        self.minutes += 1
        return at(self.minutes)

    def drive(self) -> None:
        with self.store.write() as session:
            take_lease(session, self.sweep, DRIVER, at(self.minutes))

    def end(self, status: SweepStatus) -> None:
        with self.store.write() as session:
            end_lease(session, sweep_named(session, self.sweep).id, DRIVER, status, self.now())

    def trial(self, n: int, B: int, seed: int = 0) -> int:
        new = samples.trial(n, B, seed, candidate_id=self.candidates.get((n, B)), name=f"n{n}-B{B}-s{seed}")
        made = samples.put(self.store, sweeps.add_trial, self.sweep, new, self.now())
        self.sizes[made] = (n, B)
        return made

    def move(self, trial: int, state: TrialState, reason: str = "as decided", **failure: str) -> None:
        samples.put(self.store, sweeps.move_trial, trial, state, self.now(), reason, **failure)

    def decide(self, action: str, reason: str, trial: int | None = None, **seen: float) -> None:
        of = {"trial_id": trial, "seen": {"p": 0.5, **seen}}
        samples.put(self.store, results.record_decision, self.sweep, self.now(), action, reason, **of)

    def begin(self, trial: int, from_step: int) -> int:
        """Reserve a segment and let it run."""
        number = self.segments[trial] = self.segments.get(trial, 0) + 1
        new = samples.segment(number, from_step=from_step, to_step=from_step + STEPS, reserved_gpu_hours=HOURS)
        verb, (n, B) = ("continue" if from_step else "start"), self.sizes[trial]
        moves = f"goes on from step {from_step} to" if from_step else "starts, up to"
        reason = f"n = {n}, B = {B} {moves} step {from_step + STEPS} for 29 GPU-hours: it gains most by the GPU-hour"
        self.decide(verb, reason, trial, to_step=from_step + STEPS, granted_to_step=from_step + STEPS - 1)
        self.open[trial] = samples.put(self.store, results.open_segment, trial, new, self.now())
        self.move(trial, TrialState.RUNNING)
        return self.open[trial]

    def score(self, trial: int, step: int, score: float, attempt: int = 1) -> None:
        new = Point(
            trial_id=trial,
            attempt=attempt,
            optimizer_step=step,
            rollouts=step * 512,
            tokens=step * 9999,
            seconds=step * 60.0,
            gpu_hours=step * HOURS / STEPS,
            score=score,
            score_standard_error=0.011,
            metrics={"pass_rate": score},
        )
        samples.put(self.store, results.add_points, [new])

    def settle(self, trial: int, outcome: SegmentOutcome, gpu_hours: float = HOURS - 1, **reached: int) -> None:
        samples.put(self.store, results.settle_segment, self.open.pop(trial), outcome, gpu_hours, self.now(), **reached)

    def fit(self, trial: int, mean: float, probability_best: float | None) -> None:
        samples.put(
            self.store,
            Session.add,
            Fit(
                trial_id=trial,
                made_at=self.now(),
                model="sigmoid",
                verdict="rising",
                upto_gpu_hours=30.0,
                target_gpu_hours=4000.0,
                parameters={},
                predicted_mean=mean,
                predicted_low=mean - 0.06,
                predicted_high=mean + 0.05,
                level=0.9,
                fit_milliseconds=0.4,
                probability_best=probability_best,
            ),
        )

    def charge(self, kind: str, gpu_hours: float) -> None:
        with self.store.write() as session:
            of = {"sweep_id": sweep_named(session, self.sweep).id, "worker": "w1"}
            session.add(Charge(**of, at=self.now(), kind=kind, gpu_hours=gpu_hours))

    def recommend(self) -> None:
        answer = samples.recommendation(
            rollouts_per_prompt=512,
            prompts_per_batch=32,
            update_steps=571,
            learning_rate=4e-6,
            expected_score=0.74,
            score_low=0.68,
            score_high=0.79,
            probability_best=0.62,
            gpu_hours_to_target=3997.0,
            details={"reason": "the runner-up is n = 128, B = 64 with 0.71 (0.65 to 0.76)"},
        )
        rows = [
            samples.ranking(
                1, 512, prompts_per_batch=32, update_steps=571, learning_rate=4e-6, **of_score(0.74, 0.68, 0.79, 0.62)
            ),
            samples.ranking(2, 128, **of_score(0.71, 0.65, 0.76, 0.27)),
            samples.ranking(3, 1024, expected_score=None, score_low=None, score_high=None, probability_best=None),
        ]
        samples.put(self.store, results.save_recommendation, self.sweep, answer, rows)


def of_score(mean: float, low: float, high: float, probability_best: float) -> dict[str, float]:
    return {"expected_score": mean, "score_low": low, "score_high": high, "probability_best": probability_best}


def curve(asymptote: float, step: float) -> float:
    return 0.2 + (asymptote - 0.2) / (1 + math.exp((20 - step) / 8))


def seeded(path: Path) -> Seeder:
    """Open a database with a sweep in the middle of its life: trials in every state, a failure, idle time."""
    content, state = _written()
    path.write_bytes(content)
    seeder = object.__new__(Seeder)
    seeder.__dict__.update(deepcopy(state), store=open_store(path))
    return seeder


def ready(path: Path) -> str:
    """Write a database with that sweep when it has ended, with its recommendation."""
    seeder = seeded(path)
    seeder.recommend()
    seeder.end(SweepStatus.FINISHED)
    seeder.store.close()
    return str(path)


@cache
def _written() -> tuple[bytes, dict[str, Any]]:
    """Write it once: hundreds of small transactions take half a second."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rlplan.db"
        with open_store(path) as store:
            seeder = seed(store)
        return path.read_bytes(), {name: value for name, value in vars(seeder).items() if name != "store"}


def seed(store: Store) -> Seeder:
    seeder = Seeder(store)
    for n, B, seed, committed, asymptote, probability, state in TRIALS:
        trial = seeder.trial(n, B, seed)
        for segment in range(committed):
            seeder.begin(trial, segment * STEPS)
            for step in range(segment * STEPS + (0 if segment == 0 else 2), (segment + 1) * STEPS + 1, 2):
                seeder.score(trial, step, curve(asymptote, step))
            seeder.settle(trial, SegmentOutcome.COMMITTED)
            seeder.fit(trial, asymptote, probability)
            if segment < committed - 1 or state is not TrialState.PLANNED:
                seeder.move(trial, TrialState.PAUSED)
        _bring_to(seeder, trial, committed * STEPS, state)
    seeder.charge("idle", 4.5)
    seeder.drive()
    return seeder


def _bring_to(seeder: Seeder, trial: int, step: int, state: TrialState) -> None:
    if state is TrialState.RUNNING:
        seeder.begin(trial, step)
    elif state is TrialState.PRUNED:
        n, B = seeder.sizes[trial]
        reason = f"P(n = {n}, B = {B} is best at 4,000 GPU-hours) is 0.004, below 0.02"
        seeder.decide("prune", reason, trial)
        seeder.move(trial, state, reason)
    elif state is TrialState.FAILED:
        seeder.begin(trial, step)
        seeder.settle(trial, SegmentOutcome.FAILED, 3.0)
        tail = "Traceback\n  …\ntorch.OutOfMemoryError: 81 GiB wanted\n"
        seeder.move(trial, state, "the worker ran out of memory", failure_class="out-of-memory", failure_tail=tail)


def later(seeder: Seeder, seconds: float = 2.0) -> datetime:
    """Return a moment after everything that was written."""
    return at(seeder.minutes) + timedelta(seconds=seconds)
