"""A backend that trains nothing: scores follow a fixed curve, checkpoints are one number in a file."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import rlplan.actions.training
from budgets.errors import InputError, NotFoundError, TrainingError
from rlplan.entry import main
from runner.ports.backend import Point, Saved, Segment
from runner.ports.trial import TrialConfig

SECONDS = 0.5  # of each update


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def steps(folder: Path) -> list[int]:
    return [line["step"] for line in metrics(folder)]


def curve_steps(folder: Path) -> list[int]:
    return [int(line.split(",")[0]) for line in (folder / "curve.csv").read_text().splitlines()[1:]]


class Scripted:
    """Does what a backend has to, at once; `before` is called when an update begins."""

    def __init__(
        self,
        before: Callable[[int], None] = lambda step: None,
        *,
        fails_at: int | None = None,
        flags: dict[int, tuple[str, ...]] | None = None,
        metrics: dict[int, dict[str, float]] | None = None,
    ) -> None:
        self.before = before
        self.fails_at = fails_at
        self.flags = flags or {}
        self.metrics = metrics or {}
        self.notes: tuple[str, ...] = ()
        self.saved: list[int] = []
        self.closed = False
        self.saves_itself = False
        self.step = -1

    def start(self, config: TrialConfig, folder: Path) -> None:
        if config.task.model == "/nowhere":
            raise InputError("model '/nowhere' is no local checkpoint")
        self.config, self.folder = config, folder

    def advance(self, segment: Segment) -> Iterator[Point]:
        if self.step < 0:
            self.step = 0
            yield self._point()
        while self.step < segment.to_step:
            self.before(self.step + 1)
            if self.step + 1 == self.fails_at:
                raise TrainingError("nan", "3 updates in a row had a loss that is not finite")
            self.step += 1
            yield self._point()
            if segment.stopping():
                return

    def checkpoint(self) -> Saved:
        path = self.folder / f"checkpoint-{self.step:08d}.pt"
        path.write_text(json.dumps(self.step))
        self.saved.append(self.step)
        return Saved(self.step, path)

    def restore(self, config: TrialConfig, folder: Path) -> int:
        self.start(config, folder)
        notes = []
        for path in sorted(folder.glob("checkpoint-*.pt"), reverse=True):
            try:
                self.step = json.loads(path.read_text())
            except ValueError:
                notes.append(f"{path.name} is damaged")
                continue
            self.notes = tuple(notes)
            return self.step
        raise NotFoundError(f"no sound checkpoint in {folder}")

    def close(self) -> None:
        self.closed = True

    def _point(self) -> Point:
        rollouts = self.step * self.config.rollouts_per_step
        every = self.config.validation.every_rollouts
        scored = self.step == 0 or rollouts // every > (rollouts - self.config.rollouts_per_step) // every
        learned = 0.4 + 0.6 / (1 + (40 / (self.step + 1)) ** 2)
        measured = {"pass_rate": learned, "entropy": 1 - learned, "truncated_share": 0.0, "reward_failures": 0.0}
        return Point(
            optimizer_step=self.step,
            rollouts=rollouts,
            tokens=5 * rollouts,
            seconds=SECONDS * (self.step + 1),
            gpu_hours=SECONDS * (self.step + 1) / 3600,
            score=learned if scored else None,
            score_standard_error=0.01 if scored else None,
            metrics={**(measured if self.step else {}), **self.metrics.get(self.step, {}), "seconds": {"train": 0.25}},
            flags=self.flags.get(self.step, ()),
            further_scores={"best@4": (learned, 0.02)} if scored else {},
        )


def wait_for(pipe: Path) -> Callable[[int], None]:
    """Make each update wait for a byte of a pipe; where there is a second pipe, it is told there that it has begun."""
    stream = pipe.open("rb", buffering=0)
    begun = pipe.with_name(f"{pipe.name}-begun")
    told = begun.open("wb", buffering=0) if begun.exists() else None

    def before(step: int) -> None:
        if told is not None:
            told.write(b"%d\n" % step)
        if not stream.read(1):
            sys.exit(99)

    return before


if __name__ == "__main__":
    # The command line over this backend, as a process of its own: PIPE is read in every update.
    backend = Scripted()

    def opened() -> Scripted:
        backend.before = wait_for(Path(sys.argv.pop(1)))
        return backend

    given = opened()
    rlplan.actions.training.open_backend = lambda _: given
    main()
