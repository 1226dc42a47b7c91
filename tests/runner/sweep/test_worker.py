"""A worker's core, without Ray: with simulated trials, and with a backend that fails as it is told."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from budgets.errors import CheckpointError, InputError, NotFoundError, TrainingError
from runner.backends import open_backend
from runner.ports.backend import Point, Saved, Segment, TrainerBackend
from runner.ports.executor import Began, Ended, Event, Failed, Progress, Work
from runner.ports.trial import TrialConfig
from runner.sweep import worker as worker_module
from runner.sweep.worker import LOG, Worker
from runner.training.trial import METRICS
from tests.conformance.works import Works
from tests.runner.trainers.standins import standin_config

benches: "list[Bench]" = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while benches:
        benches.pop().worker.close()


def test_what_a_worker_says_holds_no_value_of_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_TOKEN", "greizehn")
    chosen = standin_config()
    assert chosen.trainer is not None
    trainer = chosen.trainer.model_copy(update={"secrets": ["JUDGE_TOKEN"]})
    config = chosen.model_copy(update={"trainer": trainer}).model_dump(mode="json")

    def opening(_: TrialConfig) -> TrainerBackend:
        raise TrainingError("error", "Bearer greizehn was refused", "+ export JUDGE_TOKEN=greizehn")

    work = Work(1, 1, 0, config, str(tmp_path / "trial"), 0, 4, 60.0)
    events: list[Event] = []
    Worker("w1", Seconds(), events.append, opening).run(work, lambda: False)
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert (failed.message, failed.tail) == ("Bearer *** was refused", "+ export JUDGE_TOKEN=***")


class Seconds:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Bench:
    """A worker, what it reported, and what happens in it."""

    opening: Callable[[TrialConfig], TrainerBackend] = open_backend
    clock: Seconds = field(default_factory=Seconds)
    events: list[Event] = field(default_factory=list)
    opened: int = 0

    def __post_init__(self) -> None:
        benches.append(self)
        self.worker = Worker("w1", self.clock, self.events.append, self._opened, self.clock)

    def _opened(self, config: TrialConfig) -> TrainerBackend:
        self.opened += 1
        return self.opening(config)

    def run(self, work: Work, stopping: Callable[[], bool] = lambda: False) -> Ended | Failed:
        before = len(self.events)
        goes_on = self.worker.run(work, stopping)
        new = self.events[before:]
        assert new[0] == Began(work.segment, "w1", new[0].worker_seconds)
        assert all(isinstance(event, Progress) for event in new[1:-1])
        assert isinstance(new[-1], Ended if goes_on else Failed)
        return new[-1]

    def steps(self, work: Work) -> list[list[int]]:
        """The steps of each report."""
        reports = [e for e in self.events if isinstance(e, Progress) and e.segment == work.segment]
        return [[point.optimizer_step for point in report.points] for report in reports]


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


def saved_points(folder: str) -> list[int]:
    lines = (Path(folder) / METRICS).read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_points_are_reported_with_the_next_score_and_kept_in_the_folder(works: Works) -> None:
    bench = Bench()
    work = works(to_step=5)
    ended = bench.run(work)
    assert (ended.step, ended.notes) == (5, ())
    assert bench.steps(work) == [[0], [1, 2], [3, 4], [5]]
    assert saved_points(work.folder) == [0, 1, 2, 3, 4, 5]
    assert Path(ended.checkpoint).exists()


def test_a_trial_in_memory_is_not_opened_again(works: Works) -> None:
    bench = Bench()
    for work in (works(to_step=2), works(from_step=2, to_step=4)):
        assert bench.run(work).step == work.to_step
    assert bench.opened == 1
    bench.run(works(trial=2, to_step=1))
    bench.run(works(from_step=4, to_step=5))
    assert bench.opened == 3


@pytest.mark.parametrize(
    ("before", "from_step", "to_step", "reached", "reports"),
    [
        (5, 2, 7, 7, [[3, 4, 5], [6], [7]]),  # what nobody heard of comes first
        (1, 0, 2, 2, [[0, 1], [2]]),  # nothing was committed: the base model's score too
        (6, 1, 4, 6, [[2, 3, 4, 5, 6]]),  # it is beyond the segment already
    ],
)
def test_what_an_earlier_worker_could_not_report_is_reported_first(
    works: Works, before: int, from_step: int, to_step: int, reached: int, reports: list[list[int]]
) -> None:
    Bench().run(works(to_step=before))
    bench, again = Bench(), works(from_step=from_step, to_step=to_step)
    assert bench.run(again).step == reached
    assert bench.steps(again) == reports


@pytest.mark.parametrize("look", [0, 4])  # before anything is opened, and while it trains
def test_a_sweeps_folder_that_is_away_costs_the_segment_and_is_not_made_anew(tmp_path: Path, look: int) -> None:
    sweep, away, looks = tmp_path / "sweep", tmp_path / "away", count()
    sweep.mkdir()
    bench, work = Bench(), Works(sweep)()

    def looked() -> bool:
        if next(looks) == look:
            sweep.rename(away)
        return False

    if look == 0:
        looked()
    assert bench.run(work, looked).kind == "lost"
    assert not sweep.exists()
    away.rename(sweep)
    assert bench.run(work).step == work.to_step


def test_points_beyond_the_checkpoint_are_cut_and_made_again(works: Works) -> None:
    first = works(to_step=4)
    Bench().run(first)
    lines = (Path(first.folder) / METRICS).read_text().splitlines(keepends=True)
    beyond = [json.dumps(json.loads(lines[-1]) | {"step": step}) + "\n" for step in (5, 6)]
    (Path(first.folder) / METRICS).write_text("".join([*lines, *beyond]) + '{"step": 7, "ro')
    bench, again = Bench(), works(from_step=4, to_step=6)
    bench.run(again)
    assert bench.steps(again) == [[5, 6]]
    assert saved_points(first.folder) == [0, 1, 2, 3, 4, 5, 6]


def test_an_older_checkpoint_is_trained_up_again_without_reporting_twice(works: Works) -> None:
    first = works(to_step=2)
    bench = Bench()
    bench.run(first)
    newest = Path(bench.run(works(from_step=2, to_step=4)).checkpoint)
    newest.write_bytes(b"damaged")
    bench, again = Bench(), works(from_step=4, to_step=6)
    ended = bench.run(again)
    assert ended.step == 6
    assert bench.steps(again) == [[5, 6]]
    assert any("step 2 instead of 4" in note for note in ended.notes)


def test_a_trial_whose_checkpoints_are_gone_fails_as_checkpoint(works: Works) -> None:
    failed = Bench().run(works(from_step=4, to_step=6))
    assert failed.kind == "checkpoint"
    assert "stands at step 4" in failed.message


def test_a_stopped_trial_is_saved_where_it_stands(works: Works) -> None:
    bench = Bench()
    assert bench.run(works(to_step=5), lambda: True).step == 0  # the base model's score comes first
    assert bench.run(works(to_step=5), lambda: True).step == 0
    answers: Iterator[bool] = iter([False, False, True])  # before the first update, after it, and after the second
    assert bench.run(works(to_step=5), lambda: next(answers)).step == 2
    assert Bench().run(works(from_step=2, to_step=3)).step == 3


def test_a_long_segment_is_saved_every_ten_minutes(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    work = works(to_step=5)
    seen: list[set[str]] = []

    def five_minutes_pass() -> bool:
        bench.clock.now += worker_module.SECONDS_BETWEEN_CHECKPOINTS / 2
        seen.append({path.name for path in Path(work.folder).glob("checkpoint-*")})
        return False

    bench.run(work, five_minutes_pass)
    assert [len(names) for names in seen] == [0, 0, 1, 1, 2, 2, 2]


class Broken:
    """A backend that does something else than train."""

    def __init__(self, act: Callable[[], None], *, when: str = "advance") -> None:
        self._act = act
        self._when = when
        self.notes: tuple[str, ...] = ()
        self.saves_itself = False

    def start(self, config: TrialConfig, folder: Path) -> None:
        self._folder = folder

    def restore(self, config: TrialConfig, folder: Path) -> int:
        raise NotFoundError("no sound checkpoint")

    def advance(self, segment: Segment) -> Iterator[Point]:
        if self._when == "advance":
            self._act()
        for step in (0, segment.to_step):
            yield Point(step, 1, 1, 1.0, 1.0, score=0.5)

    def checkpoint(self) -> Saved:
        (self._folder / "checkpoint-00000001.writing").write_text("half")
        self._act()
        raise AssertionError

    def close(self) -> None:
        raise RuntimeError("closing fails too")


def test_failed_rewards_and_what_a_judge_costs_are_noted_with_the_segment(works: Works) -> None:
    class Judged(Broken):
        def advance(self, segment: Segment) -> Iterator[Point]:
            for step, share in ((0, 0.01), (1, 0.02), (2, 0.5)):
                said = {"failed_reward_share": share, "notes": ["problem 'p': raised: it hurts"]}
                spent = {"reward_calls": 1500.0, "reward_dollars": 2.5, "service_dollars": 0.25}
                spent |= {"prefill_tokens": 4000.0, "sample_tokens": 500.0, "train_tokens": 2000.0}
                yield Point(step, 1, 1, 1.0, 1.0, score=0.5, metrics={**said, **spent})

        def checkpoint(self) -> Saved:
            return Saved(2, self._folder)

        def close(self) -> None: ...

    ended = Bench(lambda _config: Judged(lambda: None)).run(works(to_step=2))
    assert ended.notes == (
        "2.0 % of the rewards of step 1 failed: problem 'p': raised: it hurts",
        "a judge was called 4,500 times, for $7.50",
        "the service read 12,000 tokens, sampled 1,500 and trained on 6,000, for $0.75",
    )


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (TrainingError("nan", "the loss is NaN"), "nan", "the loss is NaN"),
        (CheckpointError("no space left"), "checkpoint", "no space left"),
        (InputError("no such reward"), "input", "no such reward"),
        (MemoryError("big"), "out-of-memory", "use fewer rollouts"),
        (ZeroDivisionError("by zero"), "error", "ZeroDivisionError: by zero"),
        (SystemExit(3), "error", "SystemExit: 3"),
    ],
)
def test_a_failure_has_a_kind_a_message_and_the_end_of_the_log(
    works: Works, error: BaseException, kind: str, message: str
) -> None:
    bench = Bench(lambda _config: Broken(raising(error)))
    failed = bench.run(works())
    assert (failed.kind, failed.worker) == (kind, "w1")
    assert message in failed.message
    assert type(error).__name__ in failed.tail
    assert "closing fails too" in (Path(works().folder) / LOG).read_text()


def test_a_full_disk_leaves_nothing_half_written(works: Works) -> None:
    bench = Bench(lambda _config: Broken(raising(CheckpointError("no space left")), when="checkpoint"))
    work = works(to_step=1)
    failed = bench.run(work)
    assert failed.kind == "checkpoint"
    assert bench.steps(work) == [[0], [1]]
    assert not list(Path(work.folder).glob("*.writing"))


def test_points_that_cannot_be_written_fail_as_checkpoint(works: Works) -> None:
    work = works()
    Path(work.folder).mkdir()
    (Path(work.folder) / METRICS).mkdir()
    failed = Bench().run(work)
    assert failed.kind == "checkpoint"
    assert METRICS in failed.message


def test_what_is_printed_lies_in_the_trials_log(works: Works) -> None:
    def talk() -> None:
        sys.stdout.write("to stdout\n")
        sys.stderr.write("to stderr\n")
        raise TrainingError("nan", "x" * 5000)

    before = sys.stdout, sys.stderr
    failed = Bench(lambda _config: Broken(talk)).run(works())
    assert (sys.stdout, sys.stderr) == before
    log = (Path(works().folder) / LOG).read_text()
    assert "to stdout" in log
    assert "to stderr" in log
    assert len(failed.tail) == 2000


class SlowToStart(Broken):
    """One whose start takes longer than the segment may, and which asks all the while whether it is to stop."""

    def __init__(self, clock: Seconds) -> None:
        super().__init__(lambda: None)
        self._clock = clock

    def restore(self, config: TrialConfig, folder: Path) -> int:
        self._folder = folder
        return 3

    def advance(self, segment: Segment) -> Iterator[Point]:
        for _ in range(5):
            self._clock.now += 10.0
            if segment.stopping():
                return
        yield Point(4, 1, 1, 1.0, 1.0, score=0.5)
        if not segment.stopping():
            yield Point(5, 1, 1, 1.0, 1.0, score=0.5)

    def checkpoint(self) -> Saved:
        return Saved(4, self._folder)


def test_a_segment_whose_time_its_start_takes_up_makes_an_update_all_the_same(works: Works) -> None:
    clock = Seconds()
    bench = Bench(opening=lambda _: SlowToStart(clock), clock=clock)
    work = works(from_step=3, to_step=9, most_seconds=20.0)
    ended = bench.run(work)
    assert isinstance(ended, Ended)
    assert ended.step == 4  # it would never get any farther otherwise, and be paid for again and again
    assert bench.steps(work) == [[4]]
