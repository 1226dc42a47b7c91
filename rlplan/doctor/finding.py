"""One row of what `rlplan doctor` says."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial


class Health(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    MIND = "mind"  # sweeps run, but slower, smaller or later than they could
    BAD = "bad"  # no sweep runs before this is mended


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, why it matters, and what to do about it; the last two are empty where all is well."""

    health: Health
    what: str
    found: str
    why: str = ""
    do: str = ""


# With which all is well; with which sweeps run all the same; and with which none runs.
ok, mind, bad = (partial(Finding, health) for health in (Health.OK, Health.MIND, Health.BAD))


def verdict(findings: Iterable[Finding]) -> Health:
    """Return the worst."""
    healths = {each.health for each in findings}
    return next((each for each in (Health.BAD, Health.MIND) if each in healths), Health.OK)
