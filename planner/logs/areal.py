"""AReaL's console: `… Train step 12/100 done.`, and the tables of statistics that follow it."""

import re

from planner.logs.lines import Said, number, plain

MARK = re.compile(r"Train step \d+/\d+ done|│ \w")
_DONE = re.compile(r"\bTrain step (\d+)/\d+ done")
_FRAMES = "│|"


def values_of(line: str) -> Said | None:
    """Return the step of a line that ends one, or the numbers of a line of its tables, which belong to that step."""
    text = plain(line)
    if found := _DONE.search(text):
        return int(found[1]), {}
    bare = text.strip()
    if not bare or bare[0] not in _FRAMES:
        return None
    cells = [cell.strip() for cell in re.split(f"[{_FRAMES}]", bare.strip(_FRAMES))]
    values = {}
    for name, said in zip(cells[::2], cells[1::2], strict=False):
        value = number(said)
        if name and value is not None and number(name) is None:
            values[name] = value
    return (None, values) if values else None
