"""Prints what a run that is followed says: a line a validation, or JSON lines."""

import csv
import json
import shlex
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planner.watching.left import RemainingGain
from rlplan.actions.watching import Seen
from rlplan.exits import ExitCode
from rlplan.wording.console import Part, print_drawn
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import Invocation, NextStep, next_steps
from rlplan.wording.numbers import plural
from rlplan.wording.terminal import Canvas, harmless, tell

NEWEST = 12  # validations on the first screen
COLUMNS = ("curve", "x", "score", "standard_error", "training_reward", "rule", "evidence", "advice")


def print_watched(
    seen: Iterable[Seen], run: Path, format: Format, invocation: Invocation, *, once: bool = False
) -> int:
    """Print each line when it comes, or the newest of those that are there; return the exit code."""
    warned, writer = False, csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore", lineterminator="\n")
    if format is Format.CSV:
        writer.writeheader()
    number, newest = 0, deque[str](maxlen=None if invocation.explain else NEWEST)
    for each in seen:
        number += 1
        warned = warned or each.warned is not None
        for note in each.notes:
            tell(f"note: {note}")
        if format is Format.JSON:
            print(json.dumps(seen_data(each)))  # noqa: T201
        elif format is Format.CSV:
            writer.writerow(seen_data(each))
        elif once:
            newest.append(harmless(_line(each)))
        else:
            print(harmless(_line(each)))  # noqa: T201
        sys.stdout.flush()
    if not number:
        tell("nothing was validated yet")
        return ExitCode.NOT_FOUND
    if format is Format.TABLE:
        print_drawn(lambda canvas: _ended(run, number, list(newest), invocation, canvas))
    return ExitCode.FINISHED_WITH_FAILURES if warned else ExitCode.DONE


def _ended(run: Path, number: int, newest: Sequence[str], invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Return the newest lines where they were not printed as they came, and what can be typed next."""
    for text in newest:
        for line in text.splitlines():
            yield from canvas.lines(line)
    further = []
    if newest and (earlier := number - len(newest)):
        yield canvas.line(f"{plural(earlier, 'earlier validation')} not shown", "dim")
        further = [invocation.explained("every validation")]
    fitted = NextStep(shlex.join(["rlplan", "fit", str(run)]), "where its curve goes")
    yield from next_steps([fitted, *further], canvas)


def seen_data(seen: Seen) -> dict[str, Any]:
    """Return a validation as one JSON line; a warning of updates has no score."""
    scored, warned = seen.scored, seen.warned
    return {
        "curve": seen.curve,
        "x_name": seen.x_name,
        "x": None if scored is None else scored.x,
        "score": None if scored is None else scored.score,
        "standard_error": None if scored is None else scored.error,
        "training_reward": None if scored is None else scored.reward,
        **({"rule": None, "evidence": None, "advice": None} if warned is None else asdict(warned)),
        "left": None if seen.left is None else _left_data(seen.left),
    }


def _left_data(left: RemainingGain) -> dict[str, Any]:
    return {
        "share": left.share,
        "expected_gain": left.expected,
        "chance": left.chance,
        "won": left.won,
        "expected_end": {"median": left.end.mean, "low": left.end.low, "high": left.end.high},
    }


def _line(seen: Seen) -> str:
    parts = []
    if (scored := seen.scored) is not None:
        error = f" ± {scored.error:.3f}" if scored.error is not None else ""
        reward = f", training reward {scored.reward:.3f}" if scored.reward is not None else ""
        parts.append(f"{seen.curve}: score {scored.score:.3f}{error} at {seen.x_name} {scored.x:g}{reward}")
    if seen.left is not None:
        parts.append(_said_of_left(seen.left))
    if seen.warned is not None:
        advice = seen.warned.advice[:1].upper() + seen.warned.advice[1:]
        parts.append(f"WARNING ({seen.warned.rule}): {seen.warned.evidence}. {advice}.")
    return "; ".join(parts) if seen.warned is None else "\n".join(parts)


def _said_of_left(left: RemainingGain) -> str:
    what = f"{left.share:.0%} of the run left, which should add {left.expected:.3f}"
    return f"{what}: little left to gain, end it here" if left.won else f"{what} (end {left.end.mean:.3f})"
