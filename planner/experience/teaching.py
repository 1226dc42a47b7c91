"""Makes of several experiences the priors of a new sweep's coefficients.

A coefficient of the new sweep and those of its sources are one normal with a correlation of 0.97 for every pair, and of
0 for levels; what the curves of a source say of its own coefficients is conditioned on. Each source alone and all of
them together are members of the grid beside the prior without a source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.curves.curve import Vector
from planner.experience.experience import Experience, is_transferred, widened
from planner.experience.frames import between, shared_lines
from planner.experience.likeness import likeness
from planner.pooling.features import LOCALS, Features, Line, Term
from planner.pooling.priors import LearntPrior

CORRELATION: Final = 0.97
ALL: Final = "all together"
TRUSTED: Final = 0.5  # weight of all members with a source before a curve is seen, where a source is just like it
SHARE_OF_ALL: Final = 0.5  # of that, for all sources together


@dataclass(frozen=True)
class _Told:
    """What the curves of one source say of some coefficients in our frame, in units of their prior's spread."""

    places: tuple[int, ...]  # of our terms
    precision: Vector
    pull: Vector


@dataclass(frozen=True)
class Experienced:
    """Teaches what these sources say; `about` is what the new sweep is."""

    sources: tuple[Experience, ...]
    about: Mapping[str, str]

    def priors(self, smooth: Features, target_gpu_hours: float) -> tuple[LearntPrior, ...]:
        """Return a prior for each source that shares an axis, and one for all of them."""
        spread = widened(smooth)
        found = [(each, told) for each in self.sources if (told := _told(each, smooth, spread)) is not None]
        if not found:
            return ()
        alike = [likeness(each, smooth.lines, target_gpu_hours, self.about) for each, _ in found]
        several = len(found) > 1
        trusted = TRUSTED * max(alike)
        alone = trusted * (1 - SHARE_OF_ALL if several else 1.0) * np.array(alike) / sum(alike)
        priors = [
            _conditioned(each.name, smooth, spread, [told], float(weight))
            for (each, told), weight in zip(found, alone, strict=True)
        ]
        if several:
            every = [told for _, told in found]
            priors.append(_conditioned(ALL, smooth, spread, every, trusted * SHARE_OF_ALL))
        return tuple(priors)


def _told(source: Experience, smooth: Features, spread: Vector) -> _Told | None:
    """Return what a source's curves alone say: its posterior with its own prior taken out, moved into our frame."""
    names = set(shared_lines(smooth.lines, source.lines))
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
    back = _whole(source.lines, smooth, terms)
    # δ in their frame and units is this matrix times δ in ours; curvatures' mean is taken to be ours in either.
    moved = np.linalg.inv(back) * spread[places] / sd[:, None]
    return _Told(tuple(places), moved.T @ precision @ moved, moved.T @ pull)


def _whole(lines: Sequence[Line], smooth: Features, terms: Sequence[Term]) -> Vector:
    found = np.zeros((len(terms), len(terms)))
    for local in range(LOCALS):
        own = [place for place, term in enumerate(terms) if term.local == local]
        if own:
            found[np.ix_(own, own)] = between(lines, [terms[place] for place in own], smooth.lines, local)
    return found


def _conditioned(name: str, smooth: Features, spread: Vector, told: Sequence[_Told], weight: float) -> LearntPrior:
    """Condition the joint normal of our coefficients and the sources' on what each source's curves say."""
    known = len(smooth.terms)
    places = sorted({place for each in told for place in each.places})
    row = {place: number for number, place in enumerate(places)}
    count, size = len(told) + 1, len(places)
    together = np.full((count, count), CORRELATION) + (1 - CORRELATION) * np.eye(count)
    precision = np.kron(np.linalg.inv(together), np.eye(size))
    pull = np.zeros(count * size)
    for number, each in enumerate(told, start=1):
        at = np.array([number * size + row[place] for place in each.places])
        precision[np.ix_(at, at)] += each.precision
        pull[at] += each.pull
    covariance = np.linalg.inv(precision)
    shift, within = (covariance @ pull)[:size], covariance[:size, :size]
    mean, whole = smooth.mean[:known].copy(), np.diag(smooth.sd[:known] ** 2)
    mean[places] += spread[places] * shift
    whole[np.ix_(places, places)] = within * np.outer(spread[places], spread[places])
    return LearntPrior(name, mean, whole, weight)
