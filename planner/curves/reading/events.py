"""TensorBoard event files, read with TensorBoard's own accumulator; TensorFlow is not needed."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from budgets.errors import InputError
from planner.curves.reading.restarts import Restart, restart_notes, splice
from planner.curves.reading.table import Flags, Table, Vector


@dataclass(frozen=True)
class _Events:
    """All scalars of a log, in the order of their wall time."""

    tags: list[str]
    tag: Vector
    step: Vector
    time: Vector
    value: Vector


def read_events(path: Path, name: str) -> Table:
    """Read a file of events, or all those in a folder, into the columns step, seconds and one a tag.

    Seconds leave out the pause before a restart. Restarts are spliced here, where the order of the events is known;
    events of one step share a row.
    """
    events = _load(path, name)
    busiest = np.flatnonzero(events.tag == np.argmax(np.bincount(events.tag.astype(int))))
    kept = np.ones(events.step.size, dtype=bool)
    restarted: list[Restart] = []
    for tag in range(len(events.tags)):
        good, restarted_here = splice(events.step, busiest, np.flatnonzero(events.tag == tag))
        kept &= good
        restarted = max(restarted, restarted_here, key=len)
    notes = restart_notes(restarted, "step", int((~kept).sum()))
    return _merged(events, _running(events.time, restarted), kept, name, notes)


def _load(path: Path, name: str) -> _Events:
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,
    )
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
    if not found:
        raise InputError(
            f"'{name}' holds no scalars: is this the folder to which the trainer writes its TensorBoard log?"
        )
    tags = list(dict.fromkeys(tag for tag, _, _ in found))
    number = {tag: position for position, tag in enumerate(tags)}
    columns = [(number[tag], event.step, event.wall_time, value) for tag, event, value in found]
    table = np.array(columns, dtype=float)
    table = table[np.argsort(table[:, 2], kind="stable")]
    return _Events(tags, table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def _running(time: Vector, restarted: list[Restart]) -> Vector:
    """Return the seconds since the first event, without the pause before each restart."""
    spent = np.diff(time, prepend=time[0])
    for restart in restarted:
        spent[restart.first] = 0.0
    return np.cumsum(spent)


def _merged(events: _Events, seconds: Vector, kept: Flags, name: str, notes: tuple[str, ...]) -> Table:
    """Put the values of one step into one row; what a tag reports again at the same step goes into a further row."""
    tag, step, value, seconds = (values[kept] for values in (events.tag, events.step, events.value, seconds))
    order = np.lexsort((np.arange(tag.size), step, tag))
    new = np.ones(tag.size, dtype=bool)
    new[1:] = (np.diff(tag[order]) != 0) | (np.diff(step[order]) != 0)
    starts = np.maximum.accumulate(np.where(new, np.arange(tag.size), 0))
    again = np.empty(tag.size)
    again[order] = np.arange(tag.size) - starts
    keys, first, row = np.unique(np.stack([step, again]), axis=1, return_index=True, return_inverse=True)
    row = row.reshape(-1)
    columns = {"step": keys[0], "seconds": seconds[first]}
    for position, label in enumerate(events.tags):
        mine = tag == position
        values = np.full(keys.shape[1], np.nan)
        values[row[mine]] = value[mine]
        columns[f"{label} (tag)" if label in ("step", "seconds") else label] = values
    return Table(name, columns, notes=notes)
