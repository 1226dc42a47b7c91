"""`rlplan watch`: what a run that is followed says, a line a validation, or JSON lines."""

import csv
import json
import shlex
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from budgets.hardware import SECONDS_PER_HOUR
from planner.percent import percent
from planner.scripts.records import Progress
from rlplan.actions.watching import WatchEvent, followed
from rlplan.exits import ExitCode
from rlplan.requests.foreign import WatchRequest
from rlplan.wording.answers import Answer
from rlplan.wording.documents import plain
from rlplan.wording.draw import Canvas, Invocation, NextStep, Part, next_steps, print_drawn
from rlplan.wording.formats import Format
from rlplan.wording.numbers import duration, plural
from rlplan.wording.progress import lines_of
from rlplan.wording.row_columns import columns
from rlplan.wording.terminal import harmless, tell

NEWEST = 12  # validations on the first screen
COLUMNS = columns("curve x score standard_error training_reward rule evidence advice")


@dataclass(frozen=True, repr=False)
class Watched(Answer):
    """What a run says as it goes on: each look is an iteration."""

    COLUMNS = COLUMNS

    asked: WatchRequest

    def __iter__(self) -> Iterator[WatchEvent]:
        return followed(self.asked)

    def __str__(self) -> str:
        ends = "" if self.asked.once else "; once=True ends with what is there"
        return f"{self.asked.run}: iterate over it for each validation{ends}"

    @property
    def document(self) -> Sequence[WatchEvent]:
        """A line for each validation."""
        return list(self)

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each validation."""
        return list(map(plain, self))

    def emit(self, format: Format, invocation: Invocation) -> ExitCode:
        """Print each line when it comes, or the newest of those that are there."""
        warned, writer = False, csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore", lineterminator="\n")
        progress: Progress | None = None
        number, newest = 0, deque[str](maxlen=None if invocation.explain else NEWEST)
        if format is Format.CSV:
            writer.writeheader()
        for each in followed(self.asked, say=tell):
            number += 1
            warned, progress = warned or each.warned is not None, each.progress or progress
            for note in each.notes:
                tell(f"note: {note}")
            if format is Format.JSON:
                print(json.dumps(plain(each)))  # noqa: T201
            elif format is Format.CSV:
                writer.writerow(plain(each))
            elif self.asked.once:
                newest.append(harmless(_line(each)))
            else:
                print(harmless(_line(each)))  # noqa: T201
            sys.stdout.flush()
        if not number:
            tell("nothing was validated yet")
            return ExitCode.NOT_FOUND
        if format is Format.TABLE:
            print_drawn(lambda canvas: _ended(self.asked, number, list(newest), progress, invocation, canvas))
        return ExitCode.FINISHED_WITH_FAILURES if warned else ExitCode.DONE


def answer(asked: WatchRequest) -> Watched:
    """Follow a run."""
    return Watched(asked)


def _ended(
    asked: WatchRequest,
    number: int,
    newest: Sequence[str],
    progress: Progress | None,
    invocation: Invocation,
    canvas: Canvas,
) -> Iterator[Part]:
    """Return the newest lines where they were not printed as they came, how far it is, and what can be typed next."""
    for text in newest:
        for line in text.splitlines():
            yield from canvas.lines(line)
    further = []
    if newest and (earlier := number - len(newest)):
        yield canvas.line(f"{plural(earlier, 'earlier validation')} not shown", "dim")
        further = [invocation.explained("every validation")]
    for line in lines_of(progress) if progress and asked.once else []:
        yield from canvas.lines(line)
    fitted = NextStep(shlex.join(["rlplan", "fit", str(asked.run)]), "where its curve goes")
    yield from next_steps([fitted, *further], canvas)


def _line(event: WatchEvent) -> str:
    parts = []
    if (scored := event.scored) is not None:
        error = f" ± {scored.error:.3f}" if scored.error is not None else ""
        reward = f", training reward {scored.reward:.3f}" if scored.reward is not None else ""
        parts.append(f"{event.curve}: score {scored.score:.3f}{error} at {event.x_name} {scored.x:g}{reward}")
    if event.left is not None:
        left = event.left
        rest = f"{percent(left.share)} of the run left, which should add {left.expected:.3f}"
        ends = ": little left to gain, end it here" if left.won else f" (end {left.end.score:.3f})"
        parts.append(f"{rest}{ends}")
    if (progress := event.progress) is not None and progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left / SECONDS_PER_HOUR)} left")
    if event.warned is not None:
        advice = event.warned.advice[:1].upper() + event.warned.advice[1:]
        parts.append(f"WARNING ({event.warned.rule}): {event.warned.evidence}. {advice}.")
    return "; ".join(parts) if event.warned is None else "\n".join(parts)
