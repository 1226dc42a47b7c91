"""OpenRLHF's console: `Global step 12: {…}` and `Evaluation completed in …, global_step 12, …`."""

import re

from planner.logs.lines import Said, pairs, plain

MARK = re.compile(r"Global step \d+: \{|Evaluation completed in ")
_UPDATE = re.compile(r"Global step (\d+): (\{.*)")
_VALIDATION = re.compile(
    r"Evaluation completed in (?:(\d+) days?, )?(\d+):(\d+):(\d+), global_step (\d+), eval_metrics: (\{.*)"
)
VALIDATION_SECONDS = "evaluation_seconds"  # a name of ours: it is in no dictionary of OpenRLHF's


def values_of(line: str) -> Said | None:
    """Return the step and the numbers of a line of the console; None for any other line."""
    text = plain(line)
    if found := _UPDATE.search(text):
        return int(found[1]), pairs(found[2])
    if found := _VALIDATION.search(text):
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
        took = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return int(found[5]), {**pairs(found[6]), VALIDATION_SECONDS: float(took)}
    return None
