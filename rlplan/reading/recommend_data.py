"""The recommendation as plain data, for JSON and CSV."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.axes import said
from planner.recommending.answer import answer_data
from planner.recommending.choice import Choice
from rlplan.reading.recommend_reading import Recommended

COLUMNS = ("rank", *Choice.__dataclass_fields__)


def recommended_data(found: Recommended) -> dict[str, Any]:
    """Return the document that `recommend --format json` prints."""
    started = found.launch
    return {
        "sweep": found.sweep,
        "status": found.status.value,
        "policy": found.policy,
        "pilot_gpu_hours": found.pilot_gpu_hours,
        "spent_gpu_hours": found.spent_gpu_hours,
        **answer_data(found.answer),
        "launch": {
            "command": started.line,
            "arguments": None if started.command is None else list(started.command),
            "gpu_hours": started.gpu_hours,
            "continues": None if started.continues is None else asdict(started.continues),
            "note": started.note,
        },
    }


def csv_rows(found: Recommended) -> Iterator[dict[str, Any]]:
    """Return a flat row for each configuration that can be run, the chosen one first."""
    for rank, choice in enumerate(found.answer.ranked, start=1):
        yield {"rank": rank, **asdict(choice), "axes": said(choice.axes)}
