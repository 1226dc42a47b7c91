"""Makes of several experiences the priors of a new sweep's coefficients.

A coefficient of the new sweep and those of its sources are one normal with a correlation of 0.97 for every pair, and of
0 for levels; what the curves of a source say of its own coefficients is conditioned on. Each source alone and all of
them together are members of the grid beside the prior without a source.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.curves.curve import Vector
from planner.experience.experience import Experience, is_transferred, likeness, widened
from planner.pooling.features import CoefficientTerm, Features, NumericAxis
from planner.pooling.priors import LearntPrior

CORRELATION: Final = 0.97  # [A]: a quarter of the prior's spread stays a sweep's own, √(1 − 0.97²)
ALL: Final = "all together"
# Weight of all members with a source before a curve is seen, where one is just like the sweep: of 0.5 and 0.7 the one
# with the lower regret on the simulated suite and AllocBench (`bench/results/experience.md`).
TRUSTED: Final = 0.5
SHARE_OF_ALL: Final = 0.5  # [A], of that, for all sources together: the curves' evidence decides


@dataclass(frozen=True)
class _Evidence:
    """What the curves of one source say of some coefficients in our frame, in units of their prior's spread."""

    places: tuple[int, ...]  # of our terms
    precision: Vector
    pull: Vector


@dataclass(frozen=True)
class TransferPriors:
    """Teaches what these sources say; `about` is what the new sweep is."""

    sources: tuple[Experience, ...]
    about: Mapping[str, str]

    def priors(self, smooth: Features, target_gpu_hours: float) -> tuple[LearntPrior, ...]:
        """Return a prior for each source that shares an axis, and one for all of them."""
        spread = widened(smooth)
        found = [
            (each, evidence) for each in self.sources if (evidence := _evidence_of(each, smooth, spread)) is not None
        ]
        if not found:
            return ()
        alike = [likeness(each, smooth.lines, target_gpu_hours, self.about) for each, _ in found]
        several = len(found) > 1
        trusted = TRUSTED * max(alike)
        alone = trusted * (1 - SHARE_OF_ALL if several else 1.0) * np.array(alike) / sum(alike)
        priors = [
            _conditioned(each.name, smooth, spread, [evidence], float(weight))
            for (each, evidence), weight in zip(found, alone, strict=True)
        ]
        if several:
            every = [evidence for _, evidence in found]
            priors.append(_conditioned(ALL, smooth, spread, every, trusted * SHARE_OF_ALL))
        return tuple(priors)


def _evidence_of(source: Experience, smooth: Features, spread: Vector) -> _Evidence | None:
    """Return what a source's curves alone say: its posterior with its own prior taken out, moved into our frame."""
    known = {line.name: line.log for line in source.lines}
    names = {line.name for line in smooth.lines if known.get(line.name) == line.log}
    theirs = {term: place for place, term in enumerate(source.terms)}
    places = [
        place
        for place, term in enumerate(smooth.terms)
        if is_transferred(term) and set(term.of) <= names and term in theirs
    ]
    if not places:
        return None
    terms = [smooth.terms[place] for place in places]
    at = np.array([theirs[term] for term in terms])
    sd = source.prior_sd[at]
    posterior = np.linalg.inv(source.covariance[np.ix_(at, at)] / np.outer(sd, sd))
    lengths, turned = np.linalg.eigh(posterior - np.eye(len(at)))
    precision = turned * np.maximum(lengths, 0.0) @ turned.T
    pull = (precision + np.eye(len(at))) @ ((source.mean[at] - source.prior_mean[at]) / sd)
    back = np.zeros((len(terms), len(terms)))
    for local in {term.local for term in terms}:
        own = [place for place, term in enumerate(terms) if term.local == local]
        back[np.ix_(own, own)] = between(source.lines, [terms[place] for place in own], smooth.lines, local)
    # δ in their frame and units is this matrix times δ in ours; curvatures' mean is taken to be ours in either.
    moved = np.linalg.inv(back) * spread[places] / sd[:, None]
    return _Evidence(tuple(places), moved.T @ precision @ moved, moved.T @ pull)


def between(
    theirs: Sequence[NumericAxis], terms: Sequence[CoefficientTerm], ours: Sequence[NumericAxis], local: int
) -> Vector:
    """Return the matrix that makes coefficients in our frame out of those in theirs, both in the order of `terms`.

    `terms` are all those of one parameter in shared axes. Both are polynomials in the same numbers, so that it is
    exact; an intercept is reckoned with though it is not among them, for a shifted frame changes it.
    """
    names = sorted({name for term in terms for name in term.of})
    frames = {line.name: line for line in theirs}, {line.name: line for line in ours}
    at = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=len(names)))).T
    own = dict(zip(names, at, strict=True))
    other = {}  # where these places on our lines lie on theirs
    for name in names:
        line, to = frames[1][name], frames[0][name]
        middle, half = (line.low + line.high) / 2, (line.high - line.low) / 2
        other[name] = (middle + half * own[name] - (to.low + to.high) / 2) / ((to.high - to.low) / 2)
    columns = [CoefficientTerm(local, ()), *terms]
    found = np.linalg.lstsq(_columns(columns, own, at.shape[1]), _columns(columns, other, at.shape[1]), rcond=None)[0]
    return np.asarray(found[1:, 1:])


def _columns(terms: Sequence[CoefficientTerm], at: Mapping[str, Vector], rows: int) -> Vector:
    columns = []
    for term in terms:
        product = np.prod([np.ones(rows), *(at[name] for name in term.of)], axis=0)
        curved = len(term.of) == 2 and term.of[0] == term.of[1]
        columns.append(product - 1 / 3 if curved else product)
    return np.stack(columns, axis=1)


def _conditioned(
    name: str, smooth: Features, spread: Vector, evidence: Sequence[_Evidence], weight: float
) -> LearntPrior:
    """Condition the joint normal of our coefficients and the sources' on what each source's curves say."""
    known = len(smooth.terms)
    places = sorted({place for each in evidence for place in each.places})
    row = {place: number for number, place in enumerate(places)}
    count, size = len(evidence) + 1, len(places)
    together = np.full((count, count), CORRELATION) + (1 - CORRELATION) * np.eye(count)
    precision = np.kron(np.linalg.inv(together), np.eye(size))
    pull = np.zeros(count * size)
    for number, each in enumerate(evidence, start=1):
        at = np.array([number * size + row[place] for place in each.places])
        precision[np.ix_(at, at)] += each.precision
        pull[at] += each.pull
    covariance = np.linalg.inv(precision)
    shift, within = (covariance @ pull)[:size], covariance[:size, :size]
    mean, whole = smooth.mean[:known].copy(), np.diag(smooth.sd[:known] ** 2)
    mean[places] += spread[places] * shift
    whole[np.ix_(places, places)] = within * np.outer(spread[places], spread[places])
    return LearntPrior(name, mean, whole, weight)
