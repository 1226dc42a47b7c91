"""prime-rl's metrics.jsonl: rows of {"step", "time", …}, several of one step, of the orchestrator or of the trainer."""

import json
from contextlib import suppress

from planner.logs.lines import Said

CLOCK = "time"  # seconds since 1970 in every row


def values_of(line: str) -> Said | None:
    """Return the step and the numbers of a row; None for any other line."""
    with suppress(ValueError, RecursionError):
        row = json.loads(line)
        step = row.pop("step", None) if isinstance(row, dict) else None
        if isinstance(step, int | float) and step == int(step):
            return int(step), {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
    return None
