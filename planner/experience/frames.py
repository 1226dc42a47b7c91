"""Brings a surface from the frame of one sweep's axes into that of another."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from planner.curves.curve import Vector
from planner.pooling.features import Line, Term


def shared_lines(ours: Sequence[Line], theirs: Sequence[Line]) -> tuple[str, ...]:
    """Return the axes that can be read in either frame."""
    known = {line.name: line for line in theirs}
    return tuple(line.name for line in ours if line.name in known and known[line.name].log == line.log)


def between(theirs: Sequence[Line], terms: Sequence[Term], ours: Sequence[Line], local: int) -> Vector:
    """Return the matrix that makes coefficients in our frame out of those in theirs, both in the order of `terms`.

    `terms` are all those of one parameter in shared axes. Both are polynomials in the same numbers, so that it is
    exact; an intercept is reckoned with though it is not among them, for a shifted frame changes it.
    """
    names = sorted({name for term in terms for name in term.of})
    frames = {line.name: line for line in theirs}, {line.name: line for line in ours}
    at = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=len(names)))).T
    own = dict(zip(names, at, strict=True))
    other = {name: _moved(own[name], frames[1][name], frames[0][name]) for name in names}
    columns = [Term(local, ()), *terms]
    found = np.linalg.lstsq(_columns(columns, own, at.shape[1]), _columns(columns, other, at.shape[1]), rcond=None)[0]
    return np.asarray(found[1:, 1:])


def _moved(at: Vector, line: Line, other: Line) -> Vector:
    """Return where places on one line lie on another."""
    middle, half = (line.low + line.high) / 2, (line.high - line.low) / 2
    return (middle + half * at - (other.low + other.high) / 2) / ((other.high - other.low) / 2)


def _columns(terms: Sequence[Term], at: Mapping[str, Vector], rows: int) -> Vector:
    return np.stack([_column(term.of, at, rows) for term in terms], axis=1)


def _column(of: tuple[str, ...], at: Mapping[str, Vector], rows: int) -> Vector:
    if not of:
        return np.ones(rows)
    if len(of) == 2 and of[0] == of[1]:
        return np.asarray(at[of[0]] ** 2 - 1 / 3)
    return np.asarray(np.prod([at[name] for name in of], axis=0))
