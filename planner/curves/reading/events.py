"""TensorBoard event files, read with TensorBoard's own accumulator; TensorFlow is not needed."""

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from budgets.errors import InputError
from planner.curves.reading.restarts import Restart, restart_notes, splice
from planner.curves.reading.table import Table

_OURS = ("step", "seconds")  # columns beside one a tag


def read_events(path: Path, name: str) -> Table:
    """Read a file of events, or all those in a folder, into the columns step, seconds and one a tag.

    Seconds leave out the pause before a restart. Restarts are spliced here, where the order of the events is known.
    Events of one step share a row; what a tag reports again at the same step goes into a further row.
    """
    scalars = _scalars(path)
    if not scalars:
        raise InputError(
            f"'{name}' holds no scalars: is this the folder to which the trainer writes its TensorBoard log?"
        )
    tags = dict.fromkeys(tag for tag, _, _ in scalars)
    events = sorted(scalars, key=lambda each: each[1].wall_time)
    tag, step = np.array([each[0] for each in events]), np.array([float(each[1].step) for each in events])
    kept = np.ones(step.size, dtype=bool)
    restarted: list[Restart] = []
    busiest = Counter(each[0] for each in scalars).most_common(1)[0][0]
    for each in tags:
        good, found = splice(step, np.flatnonzero(tag == busiest), np.flatnonzero(tag == each))
        kept &= good
        restarted = max(restarted, found, key=len)
    time = np.array([event.wall_time for _, event, _ in events])
    spent = np.diff(time, prepend=time[0])
    spent[[each.first for each in restarted]] = 0.0
    seconds = np.cumsum(spent)
    rows: dict[tuple[float, int], dict[str, float]] = {}
    again: Counter[tuple[str, float]] = Counter()
    for place in np.flatnonzero(kept).tolist():
        label, event, value = events[place]
        row = rows.setdefault((event.step, again[label, event.step]), {"seconds": seconds[place]})
        row[f"{label} (tag)" if label in _OURS else label] = value
        again[label, event.step] += 1
    columns = {"step": np.array([float(at) for at, _ in sorted(rows)])}
    for label in ("seconds", *(f"{each} (tag)" if each in _OURS else each for each in tags)):
        columns[label] = np.array([rows[key].get(label, np.nan) for key in sorted(rows)])
    return Table(name, columns, notes=restart_notes(restarted, "step", int((~kept).sum())))


def _scalars(path: Path) -> list[tuple[str, Any, float]]:
    """Return every scalar with its tag and its event, of a tag in the order of the files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    found: list[tuple[str, Any, float]] = []
    with warnings.catch_warnings():
        # The accumulator leaves its files open until it is collected.
        warnings.simplefilter("ignore", ResourceWarning)
        log = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=False)
        log.Reload()
        for tag in log.Tags()["scalars"]:
            found += [(tag, event, event.value) for event in log.Scalars(tag)]
        for tag in log.Tags()["tensors"]:
            for event in log.Tensors(tag):
                values = make_ndarray(event.tensor_proto)
                if values.size == 1 and np.issubdtype(values.dtype, np.number):
                    found.append((tag, event, float(values.reshape(()))))
        del log
    return found
