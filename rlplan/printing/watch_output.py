"""Prints what a run that is followed says: a line a validation, or JSON lines."""

import csv
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from planner.watching.left import RemainingGain
from rlplan.actions.watching import Seen
from rlplan.exits import ExitCode
from rlplan.wording.formats import Format
from rlplan.wording.terminal import harmless, tell

COLUMNS = ("curve", "x", "score", "standard_error", "training_reward", "rule", "evidence", "advice")


def print_watched(seen: Iterable[Seen], format: Format) -> int:
    """Print each line when it comes, and return the exit code; notes go to stderr."""
    warned, writer = False, csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore", lineterminator="\n")
    if format is Format.CSV:
        writer.writeheader()
    told = 0
    for each in seen:
        told += 1
        warned = warned or each.warned is not None
        for note in each.notes:
            tell(f"note: {note}")
        if format is Format.JSON:
            print(json.dumps(seen_data(each)))  # noqa: T201
        elif format is Format.CSV:
            writer.writerow(seen_data(each))
        else:
            print(harmless(_line(each)))  # noqa: T201
        sys.stdout.flush()
    if not told:
        tell("nothing was validated yet")
        return ExitCode.NOT_FOUND
    return ExitCode.FINISHED_WITH_FAILURES if warned else ExitCode.DONE


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
        parts.append(f"{seen.curve}: {scored.score:.3f}{error} at {seen.x_name} {scored.x:g}{reward}")
    if seen.left is not None:
        parts.append(_said_of_left(seen.left))
    if seen.warned is not None:
        advice = seen.warned.advice[:1].upper() + seen.warned.advice[1:]
        parts.append(f"WARNING ({seen.warned.rule}): {seen.warned.evidence}. {advice}.")
    return "; ".join(parts) if seen.warned is None else "\n".join(parts)


def _said_of_left(left: RemainingGain) -> str:
    what = f"{left.share:.0%} of the run are left, expected to bring {left.expected:.3f}"
    return f"{what}: nothing is left to win, end it here" if left.won else f"{what} (end {left.end.mean:.3f})"
