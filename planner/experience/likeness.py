"""How alike two sweeps are by their descriptions: whether a source is heard, and what it is worth before a curve."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from planner.experience.experience import Experience
from planner.pooling.features import Line

# What remains of a source's weight for each property that both name and that differs.
DIFFERENT: Final = {"model": 0.5, "task": 0.8, "difficulty": 0.5, "recipe": 0.9, "trainer": 0.9}
PER_DECADE: Final = (
    0.6  # and for each factor of ten between the final runs, or the sizes of the models, beyond the first
)
SCALES: Final = ("model_parameters", "response_tokens")
LEAST: Final = 0.02
ALIKE: Final = 0.15  # another model, task and difficulty together have 0.2; what is less alike weighs hardly anything
MOST: Final = 3  # a decision was measured with so many
SAID: Final = ("task", "model", "recipe")


def likeness(source: Experience, lines: Sequence[Line], target_gpu_hours: float, about: Mapping[str, str]) -> float:
    """Return 1 for a source that differs in nothing that is known, and less the more it differs."""
    found: float = PER_DECADE ** _decades(source.target_gpu_hours, target_gpu_hours)
    for name in SCALES:
        if name in source.about and name in about:
            found *= PER_DECADE ** _decades(float(source.about[name]), float(about[name]))
    for name, remains in DIFFERENT.items():
        if name in source.about and name in about and source.about[name] != about[name]:
            found *= remains
    return max(LEAST, found * _overlap(source.lines, lines))


def most_alike(
    known: Sequence[Experience], lines: Sequence[Line], target_gpu_hours: float, about: Mapping[str, str]
) -> tuple[Experience, ...]:
    """Return those that are alike enough, the most alike first; of equals the one that comes first among the known."""
    degrees = [likeness(each, lines, target_gpu_hours, about) for each in known]
    order = sorted(range(len(known)), key=lambda place: -degrees[place])
    return tuple(known[place] for place in order if degrees[place] >= ALIKE)[:MOST]


def compared(source: Experience, about: Mapping[str, str]) -> str:
    """Say what a source has in common with a sweep, and what it has otherwise, such as 'same task, qwen3-4b'."""
    named = [(name, source.about[name]) for name in SAID if name in source.about]
    same = [name for name, value in named if about.get(name) == value]
    others = [value for name, value in named if about.get(name) != value]
    return ", ".join([*([f"same {' and '.join(same)}"] if same else []), *others])


def _decades(one: float, other: float) -> float:
    return max(0.0, abs(math.log10(one / other)) - 1.0)


def _overlap(theirs: Sequence[Line], ours: Sequence[Line]) -> float:
    """Return how much of our axes, as far as both have them, their grid covers."""
    known = {line.name: line for line in theirs}
    shares = [
        max(0.0, min(line.high, known[line.name].high) - max(line.low, known[line.name].low)) / (line.high - line.low)
        for line in ours
        if line.name in known and known[line.name].log == line.log
    ]
    return sum(shares) / len(shares) if shares else 0.0
