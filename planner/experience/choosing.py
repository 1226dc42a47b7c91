"""Which of the sweeps that a database holds are alike enough to be learnt from without being asked for."""

from collections.abc import Mapping, Sequence
from typing import Final

from planner.experience.experience import Experience
from planner.experience.likeness import likeness
from planner.pooling.features import Line

ALIKE: Final = 0.15  # another model, task and difficulty together have 0.2; what is less alike weighs hardly anything
MOST: Final = 3  # a decision was measured with so many
SAID: Final = ("task", "model", "recipe")


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
