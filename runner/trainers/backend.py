"""The backend of every trainer that is driven from outside: whole segments, its own checkpoints, points as it logs."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from budgets.errors import CheckpointError, InputError, NotFoundError, TrainingError
from runner.ports.backend import Point, Saved, Segment, UnreadableError
from runner.ports.trial import TrialConfig
from runner.trainers.checkpoints import (
    FOLDER,
    IDENTITY,
    PRIVATE,
    TO_KEEP,
    has_aside,
    put_aside,
    remove,
    remove_aside,
    require_room,
)
from runner.trainers.driver import Attempt, Checkpoint, Explaining, TrainerDriver
from runner.trainers.hosts import Host, LocalHost
from runner.trainers.job import validation_steps
from runner.trainers.metric_lines import RewardReports
from runner.trainers.points import METRICS, PointMaker, recovered
from runner.trainers.supervisor import TrainerProcesses
from runner.training.checkpoints import compared
from runner.training.trial import read_points, replace_file

_QUICKEST_LOOK, _SECONDS_BETWEEN_LOOKS = 0.05, 1.0  # looks become rarer as long as nothing is new
_REMEMBERED = 50  # updates by which the next saves are reckoned
_PRICES_HOLD_WITHIN = 2.0  # times: an update that takes so much longer than its price is still saved in time


class DrivenBackend:
    """One trial at a time, trained by processes of somebody else's trainer."""

    saves_itself = True

    def __init__(
        self,
        driver: TrainerDriver,
        hosts: Sequence[Host] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        look_seconds: float = _SECONDS_BETWEEN_LOOKS,
    ) -> None:
        """Take the machines of the trial, this one without others; files on shared storage are looked at so often."""
        self._driver, self._hosts = driver, tuple(hosts or (LocalHost(),))
        self._sleep, self._look_seconds = sleep, look_seconds
        self._config: TrialConfig | None = None
        self._folder = Path()
        self._last: Point | None = None  # where the trial stands
        self._scored = False  # whether anything has been reported since it was opened, or before
        self._left = False  # whether it was stopped before it had said anything
        self._went_on_from = math.inf  # the step of the checkpoint with which its trainer was started last
        self._running: TrainerProcesses | None = None
        self._maker: PointMaker | None = None
        self._rewards: RewardReports | None = None
        self._rests_since = 0.0  # by the clock of what is running: the end of its last segment
        self._unread: list[Point] = []  # made by an earlier attempt or beyond the segment, and yielded by none yet
        self.notes: tuple[str, ...] = ()

    def start(self, config: TrialConfig, folder: Path) -> None:
        """Prepare a fresh trial; a folder that holds a trial already is refused."""
        trainer_folder = folder / FOLDER
        if self._driver.checkpoints(config, trainer_folder):
            raise InputError(f"{folder} holds checkpoints of a trial already: resume it, or give another folder")
        self._open(config, folder, None)
        folder.mkdir(exist_ok=True)  # not the sweep's, which may have been moved
        trainer_folder.mkdir(exist_ok=True)
        replace_file(trainer_folder / IDENTITY, json.dumps(config.model_dump(mode="json"), indent=1), PRIVATE)

    def restore(self, config: TrialConfig, folder: Path) -> int:
        """Stand where the newest complete checkpoint does; `notes` says what differs."""
        trainer_folder = folder / FOLDER
        saves = self._driver.checkpoints(config, trainer_folder)
        if not saves:
            unread = has_aside(trainer_folder)  # then that there is no other is no trouble of the disk
            raise (UnreadableError if unread else NotFoundError)(f"no sound checkpoint in {trainer_folder}")
        try:
            saved = json.loads((trainer_folder / IDENTITY).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{trainer_folder / IDENTITY} cannot be read ({error}): whose trial it is is not known"
            ) from error
        self.notes = tuple(compared(saved, config.model_dump(mode="json")))
        step, last = saves[0].step, _point_at(folder, saves[0].step)
        self._open(config, folder, last)
        self._unread = self._unheard(_attempts(trainer_folder), step)
        self._scored = True
        return step

    def advance(self, segment: Segment) -> Iterator[Point]:
        """Have it train up to the segment's last step, and yield what it says of each."""
        self._opened()
        if self._running is None:
            yield from self._released()
        if self._scored and (self._last.optimizer_step if self._last is not None else 0) >= segment.to_step:
            return
        running, maker = self._under_way(segment)
        try:
            yield from self._followed(running, maker, segment)
        except TrainingError as error:
            assert self._rewards is not None
            cause = self._rewards.cause_of(error)
            cause.tail = str(error) if error.kind == METRICS else error.tail or running.tail()  # no log says that
            if cause is error:
                raise
            raise cause from error

    def _followed(self, running: TrainerProcesses, maker: PointMaker, segment: Segment) -> Iterator[Point]:
        """Yield what it says until the segment is over."""
        asked_at: float | None = None
        asked_step, saved, wait = 0, 0, _QUICKEST_LOOK
        config, to_step = self._opened(), running.attempt.to_step
        updates = config.recipe.schedule.updates_per_batch
        last_step = -(-max(segment.to_step, to_step) // updates) * updates  # some end with a whole batch
        goes_on = running.attempt.trains_on and to_step > segment.to_step
        # It is asked to stop where nothing may follow, and where it does not save as it was told to.
        more = validation_steps(config) if segment.reach > segment.to_step else 0
        most = segment.to_step + more if goes_on else math.inf
        while True:
            code, waits_at = running.exit_code(), running.waits_at()  # before reading: what it said until then counts
            new = running.readings()
            until = segment.to_step if goes_on and code is None and asked_at is None else math.inf
            yield from self._taken(maker.take(new, running.seconds(), last_step), until)
            if asked_at is None:
                self._require_score(running, maker)
            if code is not None or (waits_at is not None and (asked_at is not None or waits_at >= segment.to_step)):
                break
            if more and until < math.inf and self._newest() >= segment.to_step:
                if not saved:
                    saved = min((save.step for save in self._saves() if save.step >= segment.to_step), default=0)
                if 0 < saved <= self._newest():
                    yield from self._released(saved)
                    return
            overdue = self._newest() >= most and not saved
            if asked_at is None and (overdue or segment.stopping()):
                asked_at, asked_step = time.monotonic(), segment.to_step if overdue else maker.newest
                self._left |= not running.has_spoken  # then it holds nothing that could be lost
                (running.ask_to_stop if running.has_spoken else running.kill)()
            if asked_at is not None and (
                time.monotonic() - asked_at > running.stop_seconds or self._is_saved(running, maker, asked_step)
            ):
                running.kill()
            wait = _QUICKEST_LOOK if new else min(2 * wait, self._look_seconds)
            self._sleep(wait)
        yield from self._taken(maker.rest())
        if asked_at is not None and code is not None:
            # What waited for more to be said of it, as a step before a validation does, is saved all the same.
            saves = self._saves()
            yield from self._taken(self._unheard(running.attempt.number, saves[0].step) if saves else [])
        self._rests_since = running.seconds()
        if code is not None:
            self._end()
            self._left |= asked_at is not None and not self._scored  # ended in its first validation
            if asked_at is None:
                self._require_done(code, running, maker.newest, min(segment.to_step, to_step))
        if asked_at is None:
            self._require_score(running, maker)

    def _require_score(self, running: TrainerProcesses, maker: PointMaker) -> None:
        """Raise TrainingError where the first validation was due and nothing that was read is its score."""
        step, config, driver = maker.check.unscored_at, self._opened(), self._driver
        if step is None:
            return
        names = ", ".join(self._last.metrics) if self._last is not None else ""
        read = driver.unscored(config, running.attempt) if isinstance(driver, Explaining) else f"read were {names}"
        passed_over = "".join(f"; {note}" for note in maker.check.notes.values())
        raise TrainingError(
            METRICS, f"no score came of the validation that was due by step {step}: {read}{passed_over}"
        )

    def _require_done(self, code: int, running: TrainerProcesses, newest: int, to_step: int) -> None:
        """Raise TrainingError where it ended by itself with a failure, or before the segment's last step."""
        if code:
            failure, read = running.failure(code), running.attempt.checkpoint
            if failure.kind == "checkpoint" and read is not None:
                put_aside(read)  # so that the one before is taken next time
            raise failure
        if newest < to_step:
            driver, attempt = self._driver, running.attempt
            why = driver.unheard(self._opened(), attempt) if isinstance(driver, Explaining) else None
            raise TrainingError(
                "error",
                why
                or f"the trainer ended in good order after step {newest} of {to_step}: does its command stop at the "
                f"step that it is to reach? ({attempt.log})",
            )

    def _is_saved(self, running: TrainerProcesses, maker: PointMaker, step: int) -> bool:
        """Whether one that does not end by itself has saved all that it had done, and has said it."""
        if running.ends_by_itself:
            return False
        saves = self._saves()
        return bool(saves) and step <= saves[0].step <= maker.newest

    def checkpoint(self) -> Saved:
        """Return the newest complete checkpoint, and remove all but the newest two."""
        saves = self._saves()
        if self._maker is not None:
            self.notes = (*self.notes, *self._maker.check.notes.values())
            self._maker.check.notes.clear()
        if not self._scored and not self._left:
            raise CheckpointError("a trial that has not scored its base model has nothing to save: advance it first")
        if saves and self._last is not None and self._running is not None and self._running.attempt.trains_on:
            # What it has saved since, and may have removed this one for, is the next segment's.
            stands = self._last.optimizer_step
            own_saves = [save for save in saves if save.step <= stands]
            self._tidy(own_saves)
            return Saved(stands, (own_saves or saves)[0].path)
        if not saves:  # it was stopped before its first: the base model is scored again when it goes on
            self._end()
            self._last = None
            return Saved(0, self._folder / FOLDER / IDENTITY)
        self._tidy(saves)
        if self._last is not None and saves[0].step != self._last.optimizer_step:
            self._end()  # what lies in memory is not what is saved
            self._last = _point_at(self._folder, saves[0].step)
        return Saved(saves[0].step, saves[0].path)

    def close(self) -> None:
        """End its processes."""
        self._end()
        self._config = None

    def _open(self, config: TrialConfig, folder: Path, last: Point | None) -> None:
        self._end()
        self._driver.check(config)
        self._config, self._folder, self._last, self._scored = config, folder.absolute(), last, False
        self._unread, self._left, self._went_on_from = [], False, math.inf

    def _opened(self) -> TrialConfig:
        if self._config is None:
            raise InputError("no trial is open: start or restore one first")
        return self._config

    def _under_way(self, segment: Segment) -> tuple[TrainerProcesses, PointMaker]:
        """Let what waits at the gate go on, listen to what has gone on, or start it from the newest checkpoint."""
        config, running = self._opened(), self._running
        trainer_folder = self._folder / FOLDER
        newest = next(iter(self._saves()), None)
        require_room(newest, trainer_folder)
        if running is not None and self._maker is not None and running.attempt.trains_on:
            if running.attempt.to_step > (self._last.optimizer_step if self._last is not None else 0):
                running.listen()
                return running, self._maker
            self._end()
        elif running is not None and self._maker is not None and running.exit_code() is None:
            self._maker.waited(running.seconds() - self._rests_since, running.seconds())
            running.open_gate(segment.to_step)
            return running, self._maker
        # The updates that fit between saves, as they were measured, else as they are priced.
        earlier = read_points(self._folder)
        points = earlier[-_REMEMBERED:]
        made = points[-1].optimizer_step - points[0].optimizer_step if points else 0
        priced = _PRICES_HOLD_WITHIN * (segment.update_seconds or 0.0)
        took = (points[-1].seconds - points[0].seconds) / made if made else priced
        attempt = Attempt(
            folder=trainer_folder,
            number=_attempts(trainer_folder) + 1,
            from_step=newest.step if newest else 0,
            to_step=max(segment.to_step, segment.reach) if self._driver.trains_on else segment.to_step,
            checkpoint=newest.path if newest else None,
            hosts=tuple(host.address for host in self._hosts),
            gpus=tuple(host.gpus for host in self._hosts),
            save_steps=max(1, int(config.driven_by.saves_every / took)) if took > 0 else None,
            trains_on=self._driver.trains_on and segment.reach > segment.to_step,
        )
        self._went_on_from, self._unread = attempt.from_step, []
        self._maker = PointMaker(config, self._last, scored=any(point.score is not None for point in earlier))
        self._rewards = RewardReports(config, trainer_folder, attempt.from_step)
        self._running = TrainerProcesses(self._driver, config, attempt, self._hosts)
        return self._running, self._maker

    def _unheard(self, number: int, step: int) -> list[Point]:
        """Return the points up to a save that nobody has read of an attempt that is over, from all that it has said."""
        config, last = self._opened(), self._last
        if last is not None and last.optimizer_step >= step:
            return []
        over = Attempt(self._folder / FOLDER, number, 0, 0, None)
        readings = [reading for source in self._driver.sources(config, over) for reading in source.read()]
        return recovered(config, last, readings, step)

    def _taken(self, points: Iterable[Point], until: float = math.inf) -> Iterator[Point]:
        """Take in points as they are made, and yield those up to a step."""
        assert self._rewards is not None
        for point in map(self._rewards.counted, points):
            self._unread.append(point)
            yield from self._released(until)
        yield from self._released(until)

    def _released(self, until: float = math.inf) -> Iterator[Point]:
        while self._unread and self._unread[0].optimizer_step <= until:
            point = self._last = self._unread.pop(0)
            self._scored = True
            yield point
            self._tidy([save for save in self._saves() if save.step <= point.optimizer_step])

    def _saves(self) -> Sequence[Checkpoint]:
        """Return the complete checkpoints of the trial, the newest first."""
        return self._driver.checkpoints(self._opened(), self._folder / FOLDER)

    def _newest(self) -> int:
        """Return the step of the last point that was made, −1 where there is none."""
        point = self._unread[-1] if self._unread else self._last
        return point.optimizer_step if point is not None else -1

    def _tidy(self, saves: Sequence[Checkpoint]) -> None:
        """Remove what nobody goes on from: the trainer may keep all that it saves."""
        remove(saves[TO_KEEP:])
        if saves and saves[0].step > self._went_on_from:
            remove_aside(saves[0].path.parent)

    def _end(self) -> None:
        running, self._running, maker, self._maker = self._running, None, self._maker, None
        if maker is not None:
            self.notes = (*self.notes, *maker.check.notes.values())
        if running is not None:
            running.kill()


def _point_at(folder: Path, step: int) -> Point | None:
    """Return the last point of a trial up to a step, of which the counts go on."""
    return next((point for point in reversed(read_points(folder)) if point.optimizer_step <= step), None)


def _attempts(folder: Path) -> int:
    """Return how often a trial's trainer was started."""
    numbers = [path.name.split("-")[1].split(".")[0] for path in folder.glob("attempt-*.log")]
    return max((int(number) for number in numbers if number.isdigit()), default=0)
