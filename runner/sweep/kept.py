"""What is taken of a trial's checkpoints into another folder, out of reach of whoever rotates them; any trainer's."""

import json
import math
import os
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from budgets.errors import CheckpointError
from planner.config.trainer import COMMAND, STANDIN
from planner.disk import why
from planner.store.finals import BEST
from planner.view import ScorePoint
from runner.ports.trial import TrialConfig
from runner.trainers.catalogue import checkpoints_of, newest_step
from runner.training import checkpoints
from runner.training.trial import METRICS, read_points, replace_file, write_points

_SMALL = 2**20  # bytes: such files are copied, for some are written anew in place, as a trainer's tracker is
# Trainers that go on at the rate which they are given; the others at that of their checkpoint.
_OWN_RATE = (COMMAND, STANDIN, "trl")


@dataclass(frozen=True, slots=True)
class FromPilot:
    """A trial whose checkpoint the final run goes on from."""

    trial: int
    folder: Path
    step: int
    config: TrialConfig | None = None  # where the trial is none of the sweep's pilots: that of a former final run

    @property
    def stays(self) -> str:
        """What is said where a best checkpoint cannot be gone on from."""
        return "" if self.config is None else f"; the best checkpoint stays in {self.folder}"


def takes_rate(config: TrialConfig) -> bool:
    """Whether another learning rate than a checkpoint's counts once its trainer has gone on from it."""
    return config.trainer is None or config.trainer.name in _OWN_RATE


def copy_pilot(pilot: FromPilot, config: TrialConfig, folder: Path) -> None:
    """Copy what a trial has saved and scored into that of a final run, which has its learning rate; its own stays."""
    checkpoints = [(step, parts) for step, parts in checkpoints_of(config, pilot.folder) if step <= pilot.step]
    if not checkpoints:
        raise CheckpointError(f"{pilot.folder} holds no checkpoint up to update {pilot.step:,} to go on from")
    try:
        _copy((part for _, parts in checkpoints for part in parts), pilot.folder, folder)
        write_points(folder, [point for point in read_points(pilot.folder) if point.optimizer_step <= pilot.step])
        if pilot.config is not None and pilot.config.learning_rate != config.learning_rate:
            _at_rate(config, folder)
    except OSError as error:
        raise CheckpointError(f"{pilot.folder} cannot be copied to {folder}: {why(error, folder)}") from error


def keep_best(config: TrialConfig, folder: Path, scores: Sequence[ScorePoint]) -> int | None:
    """Keep in the folder `best` what belongs to the best score of those whose checkpoints are left; return its step.

    It lies there as in a trial's folder, so that it can be gone on from as from that. To a score belongs the first
    checkpoint from its step on, before the next score: one that was asked to stop is saved a little later.
    """
    best, aside, former = (folder / f"{BEST}{ending}" for ending in ("", ".writing", ".former"))
    if former.is_dir() and not best.exists():  # whoever was replacing it was killed
        former.rename(best)
    checkpoints, best_step = dict(checkpoints_of(config, folder)), newest_step(config, best)
    chosen = _best_of(scores, {*checkpoints, *([] if best_step is None else [best_step])})
    if chosen is None or chosen == best_step:
        return best_step
    parts = checkpoints[chosen]
    shutil.rmtree(aside, ignore_errors=True)
    try:
        _copy(parts, folder, aside)
        if (folder / METRICS).exists():
            write_points(aside, [point for point in read_points(folder) if point.optimizer_step <= chosen])
        if not _alike(parts, folder, aside):  # its trainer has removed it meanwhile
            return best_step
        shutil.rmtree(former, ignore_errors=True)
        if best.exists():
            best.rename(former)
        aside.rename(best)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(former, ignore_errors=True)
    return chosen


def _best_of(scores: Sequence[ScorePoint], saved: Iterable[int]) -> int | None:
    """Return the checkpoint of the highest score that has one."""
    bests = []
    for number, point in enumerate(scores):
        upto = scores[number + 1].step if number + 1 < len(scores) else math.inf
        of = [step for step in saved if point.step <= step < upto and point.step]  # the base model has none
        if of:
            bests.append((point.score, -number, min(of)))
    return max(bests)[2] if bests else None


class BestCheckpoint:
    """Keeps the best checkpoint of a trial while it trains, in a thread of its own: a copy may take minutes."""

    def __init__(self, config: TrialConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._thread = ThreadPoolExecutor(1, "best")
        self._looked_at = 0  # the last score, when it was last looked what is the best
        self._under_way: Future[int | None] | None = None

    def see(self, scores: Sequence[ScorePoint]) -> str | None:
        """Keep what belongs to the best of the scores up to the last save; return why an earlier one could not be."""
        if self._under_way is not None and not self._under_way.done():
            return None
        error = None if self._under_way is None else self._under_way.exception()
        self._under_way = None
        if scores and scores[-1].step != self._looked_at:
            self._looked_at = scores[-1].step
            self._under_way = self._thread.submit(keep_best, self._config, self._folder, tuple(scores))
        return None if error is None else f"the best checkpoint could not be kept: {error}"

    def end(self, scores: Sequence[ScorePoint]) -> str | None:
        """Keep what belongs to the last scores too, and wait for it."""
        reasons = []
        for _ in range(3):  # what was under way, what is the best now, and how that went
            if self._under_way is not None:
                self._under_way.exception()  # which waits for its end
            reasons.append(self.see(scores))
        self._thread.shutdown()
        return next((reason for reason in reasons if reason is not None), None)


def _copy(parts: Iterable[Path], folder: Path, target: Path) -> None:
    for part in dict.fromkeys(parts):
        if part.name == METRICS and part.parent == folder:
            continue
        place = target / part.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        if part.is_dir():
            shutil.copytree(part, place, copy_function=_another_name)
        else:
            _another_name(str(part), str(place))


def _another_name(source: str, target: str) -> None:
    """Give a large file another name, which costs nothing: no checkpoint is changed once it is whole."""
    if os.path.getsize(source) > _SMALL:
        try:
            os.link(os.path.realpath(source), target)
        except OSError:  # another file system, or one without links
            pass
        else:
            return
    shutil.copyfile(source, target)


def _alike(parts: Sequence[Path], folder: Path, target: Path) -> bool:
    """Whether a copy has all the files that a checkpoint still has."""
    return all(_files(part) == _files(target / part.relative_to(folder)) for part in parts if part.is_dir()) and all(
        part.exists() for part in parts
    )


def _files(above: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(above, followlinks=True))


def _at_rate(config: TrialConfig, folder: Path) -> None:
    """Have a copied checkpoint say that it is of a trial with this learning rate: another trial's is refused."""
    if config.trainer is not None:
        from runner.trainers.checkpoints import FOLDER, IDENTITY, PRIVATE  # noqa: PLC0415

        replace_file(folder / FOLDER / IDENTITY, json.dumps(config.model_dump(mode="json"), indent=1), PRIVATE)
        return
    newest = checkpoints.saved(folder)[0]
    form = newest.path.suffix
    state = checkpoints.load(folder, form).state
    state["config"] = {**state["config"], "learning_rate": config.learning_rate}
    checkpoints.remove(folder)
    checkpoints.save(folder, newest.step, state, form)
