"""Score against GPU-hours: which configuration is best at which spend, and where more money stops to matter."""

from dataclasses import dataclass

from planner.recommending.choice import Choice, Chooser
from planner.sweeping.chances import NEAR

OCTAVES = (-6, 2)  # from 1/64 to 4 × the target


@dataclass(frozen=True, slots=True)
class Pareto:
    """Choices along the spend, each expected to score higher than every cheaper one.

    `enough` is the cheapest whose expected score lies within 0.02 of the one at the target, None when that is the
    target itself.
    """

    points: tuple[Choice, ...]
    enough: Choice | None


def pareto(chooser: Chooser) -> Pareto:
    """Return what no cheaper choice is expected to match."""
    prospect = chooser.prospect
    rungs = [rung for rung in prospect.rungs(*OCTAVES) if prospect.able[rung].any()]
    target = chooser.choice(prospect.rung(0))
    points: list[Choice] = []
    enough = None
    for rung in rungs:
        choice = chooser.choice(rung)
        if not points or choice.expected_score > points[-1].expected_score:
            points.append(choice)
        if enough is None and rung < prospect.rung(0) and choice.expected_score >= target.expected_score - NEAR:
            enough = choice
    return Pareto(tuple(points), enough)
