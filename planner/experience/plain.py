"""Experience as plain data, as it is stored and carried from one database to another."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from budgets.errors import InputError
from planner.experience.experience import Experience
from planner.pooling.features import LOCALS, CoefficientTerm, NumericAxis

MARK: Final = "rlplan_experience"
VERSION: Final = 1
VECTORS: Final = ("mean", "prior_mean", "prior_sd")
LARGEST: Final = 1e12  # of a number that is reckoned with; what is larger, or as small, was damaged


def document(experiences: Sequence[Experience]) -> str:
    """Return the text of a file of experience."""
    return json.dumps({MARK: VERSION, "sources": [to_plain(each) for each in experiences]}, indent=1) + "\n"


def read_document(text: str, place: str) -> tuple[Experience, ...]:
    """Read a file of experience; InputError says what is wrong with it, `place` is how it is named."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f"'{place}' is no JSON ({where}): give {ALLOWED}") from None
    if not isinstance(data, dict) or MARK not in data:
        raise InputError(f"'{place}' is JSON, but holds no experience: give {ALLOWED}")
    if data[MARK] != VERSION:
        raise InputError(
            f"'{place}' has experience of version {data[MARK]}, and this rlplan reads version {VERSION}: write it anew "
            "with `rlplan export --experience`"
        )
    sources = data.get("sources")
    if not isinstance(sources, list) or not sources:
        raise InputError(f"'{place}' holds no source of experience: write it anew with `rlplan export --experience`")
    return tuple(from_plain(each, place) for each in sources)


ALLOWED: Final = "a table of recorded runs (CSV), a file of `rlplan export --experience`, a database, or none"


# How each part is read; in this order they are written.
PARTS: Final[dict[str, Callable[[Any], Any]]] = {
    "name": str,
    "about": lambda about: {str(name): str(value) for name, value in dict(about).items()},
    "target_gpu_hours": float,
    "start": float,
    "configurations": int,
    "curves": int,
    "lines": lambda lines: tuple(
        NumericAxis(str(each["name"]), float(each["low"]), float(each["high"]), bool(each["log"])) for each in lines
    ),
    "terms": lambda terms: tuple(
        CoefficientTerm(int(each["local"]), tuple(str(name) for name in each["of"])) for each in terms
    ),
    **dict.fromkeys((*VECTORS, "covariance"), lambda values: np.asarray(values, dtype=float)),
}


def to_plain(experience: Experience) -> dict[str, Any]:
    """Return what JSON can hold; numbers come back bit by bit."""
    plain: dict[str, Any] = {name: getattr(experience, name) for name in PARTS}
    plain |= {name: value.tolist() for name, value in plain.items() if isinstance(value, np.ndarray)}
    plain |= {name: [each._asdict() for each in plain[name]] for name in ("lines", "terms")}
    return plain | {"about": dict(experience.about)}


def from_plain(data: object, place: str) -> Experience:
    """Return the experience; InputError when a part is missing or is not what it should be."""
    try:
        if not isinstance(data, dict):
            raise TypeError("a source is no object")
        found = Experience(**{name: read(data[name]) for name, read in PARTS.items()})
        _check(found)
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"'{place}' holds broken experience ({what}): write it anew with `rlplan export --experience`"
        ) from None
    return found


def _check(found: Experience) -> None:
    size = len(found.terms)
    if any(getattr(found, name).shape != (size,) for name in VECTORS) or found.covariance.shape != (size, size):
        raise ValueError(f"not every vector is of its {size} coefficients")
    numbers = np.concatenate([getattr(found, name).ravel() for name in (*VECTORS, "covariance")])
    if not (np.abs(numbers) < LARGEST).all():  # nor where it is no number at all
        raise ValueError("a coefficient is no number, or out of all reason")
    if not ((found.prior_sd > 1 / LARGEST).all() and np.allclose(found.covariance, found.covariance.T)):
        raise ValueError("a spread is not above 0, or the covariance is not symmetric")
    if size and np.linalg.eigvalsh(found.covariance).min() <= 0:
        raise ValueError("the covariance is not positive definite")
    if not 1 / LARGEST < found.target_gpu_hours < LARGEST:
        raise ValueError("target_gpu_hours is not above 0, or out of all reason")
    if not 0 <= found.start <= 1:
        raise ValueError("start is no score")
    names = {line.name for line in found.lines}
    for line in found.lines:
        if not (max(map(abs, line[1:3])) < LARGEST and line.high - line.low > max(map(abs, line[1:3])) / LARGEST):
            raise ValueError(f"the axis {line.name} has no width, or is out of all reason")
    if len(names) < len(found.lines) or len(set(found.terms)) < size:
        raise ValueError("an axis or a coefficient is there twice")
    for term in found.terms:
        if not 0 <= term.local < LOCALS or any("=" not in name and name not in names for name in term.of):
            raise ValueError(f"the coefficient {term.local}, {'·'.join(term.of)} belongs to no axis")
