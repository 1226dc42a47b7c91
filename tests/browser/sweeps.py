"""The sweeps that are looked at: one that has ended, one under way, one without a point, one full of attacks."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import update

from planner.store import Store, open_store, results, sweeps
from planner.store.control import Driver, end_lease, take_lease
from planner.store.schema import Decision, Point, Segment, SegmentOutcome, SweepStatus, Trial
from planner.store.sweeps import sweep_named
from planner.view import TrialState, TrialView
from tests.planner.store import samples
from tests.rlplan.recommend_sweeps import ended, trials
from tests.rlplan.sweep_rows import NOON, SETTINGS, STEPS, Seeder, seed

FINISHED, UNDER_WAY, EMPTY, HOSTILE = "sweep-1", "sweep-2", "sweep-3", "sweep-4"
PLAN = "plan-2"  # that no sweep has run
EVIL = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>$accent <b>& "
MORE = range(3, 36, 2)  # n of further trials of the one under way: more than are shown at first
DRIVER = Driver("driver-of-the-tests", "another-machine", 4711)


def all_kinds(path: Path) -> None:
    """Write one database with a sweep of each kind."""
    ended(path)
    with open_store(path) as store:
        assert store.save_plan(samples.plan(), samples.candidates(), created_at=NOON) == PLAN
        going = seed(store)
        assert going.sweep == UNDER_WAY
        for n in MORE:
            pilot(going, n)
        assert samples.put(store, sweeps.create_sweep, None, samples.sweep(seed=0, config=SETTINGS), NOON) == EMPTY
        attacked = seed(store)
        assert attacked.sweep == HOSTILE
        with store.write() as session:
            for trial in attacked.sizes:
                evil = {"name": f"{EVIL}{trial}", "failure_tail": EVIL}
                session.execute(update(Trial).where(Trial.id == trial).values(evil))
                session.execute(update(Segment).where(Segment.trial_id == trial).values(worker=EVIL))
                session.execute(
                    update(Decision).where(Decision.trial_id == trial).values(reason=EVIL, seen={EVIL: EVIL})
                )


def pilot(seeder: Seeder, n: int) -> None:
    """Add a trial with a segment and a score."""
    trial = seeder.trial(n, 8)
    seeder.begin(trial, 0)
    seeder.score(trial, STEPS, 0.3)
    seeder.settle(trial, SegmentOutcome.COMMITTED)
    seeder.move(trial, TrialState.PAUSED)


@dataclass
class Lively:
    """A sweep with a recommendation whose driver seems to go on with it: the test is the driver."""

    path: Path
    store: Store = field(init=False)
    trial: TrialView = field(init=False)  # whose curve grows

    def __post_init__(self) -> None:
        ended(self.path)
        self.store = open_store(self.path)
        self.trial = max(trials(self.path), key=lambda each: (each.step, each.trial))
        self._step, self._gpu_hours = self.trial.step, self.trial.scores[-1].gpu_hours
        self.beat()

    def beat(self) -> None:
        """Show that the driver lives."""
        with self.store.write() as session:
            take_lease(session, FINISHED, DRIVER, datetime.now(UTC))

    def rest(self) -> None:
        """Let go of the sweep, as a driver does that is interrupted."""
        with self.store.write() as session:
            sweep = sweep_named(session, FINISHED).id
            end_lease(session, sweep, DRIVER, SweepStatus.INTERRUPTED, datetime.now(UTC))

    def score(self, score: float) -> int:
        """Commit a new point, and return its step."""
        self._step += 10
        self._gpu_hours *= 1.05
        new = Point(
            trial_id=self.trial.trial, attempt=1, optimizer_step=self._step, rollouts=self._step, tokens=self._step,
            seconds=1.0, gpu_hours=self._gpu_hours, score=score, score_standard_error=0.01, metrics={},
        )  # fmt: skip
        samples.put(self.store, results.add_points, [new])
        return self._step
