"""Which trainer's names these are, which of them is the score, and what the others are in our words."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cache, lru_cache
from typing import Literal

from planner.logs.trainers import Patterns, Trainer, load_trainer, trainer_names

MEMORISING = "over repeated epochs it also rises by memorising the training problems"

# They match a score's pattern and say something else of it.
_NOT_SCORES = re.compile(r"(?:^|[/_-])(?:step|std|min|max|\w*length\w*|\w*ratio|response_len|policy_version)(?:$|[/@])")


@dataclass(frozen=True)
class ScoreSeries:
    """The series that serves as the score, one for each set of validation problems, and why; others by their names."""

    series: tuple[str, ...]
    kind: Literal["validation", "training"]
    why: str
    others: tuple[str, ...]

    def label(self, name: str) -> str:
        """Return what tells a series from the others that were chosen with it; '' for a single one."""
        if len(self.series) == 1:
            return ""
        parts = [series.split("/") for series in self.series]
        shortest = min(map(len, parts))
        front = next((i for i in range(shortest) if len({part[i] for part in parts}) > 1), shortest)
        back = next((i for i in range(shortest) if len({part[-1 - i] for part in parts}) > 1), shortest)
        path = name.split("/")
        return "/".join(path[front : len(path) - back]) or name

    def notes(self, name: str) -> list[str]:
        """Return what to say of a curve whose score is this series."""
        others = [other for other in (*self.series, *self.others) if other != name]
        return [f"the score is '{name}', {self.why}"] + [f"--y chooses another: {', '.join(others)}"] * bool(others)


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern.casefold()))


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern fits whole, whatever their case."""
    fits = _expression(pattern).match
    return [name for name in names if fits(name.casefold())]


def trainer_of(names: Collection[str], trainer: str | None = None) -> Trainer | None:
    """Return the trainer most of whose marks are among these names, or the one that is said to have written them."""
    if trainer is not None:
        return load_trainer(trainer)
    marks = {name: sum(bool(matching(mark, names)) for mark in load_trainer(name).marks) for name in trainer_names()}
    best = max(marks, key=lambda mark: marks[mark])
    return load_trainer(best) if marks[best] else None


def choose_score(trainer: Trainer, counts: Mapping[str, int]) -> ScoreSeries | None:
    """Choose the score among series with so many values each: validation before training; None where there is neither.

    A series with a single value is taken only where there is no other: a validation of the base model is no curve.
    """
    proper = {name: count for name, count in counts.items() if count and not _NOT_SCORES.search(name)}
    validations = list(dict.fromkeys(name for pattern in trainer.validation for name in matching(pattern, proper)))
    # What says more of another is left out: 'eval/aime/response_len' and 'eval/aime-pass@1' beside 'eval/aime'.
    parts = tuple(f"{name}{mark}" for name in validations for mark in "/-")
    validations = [name for name in validations if not name.startswith(parts)]
    rewards = [name for pattern in trainer.metrics.get("reward", ()) for name in matching(pattern, proper)]
    everything = tuple(dict.fromkeys([*validations, *rewards]))
    for enough in (2, 1):
        for pattern in trainer.validation:
            if series := [name for name in matching(pattern, validations) if counts[name] >= enough]:
                others = tuple(name for name in everything if name not in series)
                return ScoreSeries(tuple(series), "validation", f"the validation of {trainer.name}", others)
        if series := [name for name in rewards if counts[name] >= enough]:
            few = "no validation" if not validations else "but one validation"
            why = f"the training reward of {trainer.name}, as its log has {few}: {MEMORISING}"
            return ScoreSeries((series[0],), "training", why, tuple(name for name in everything if name != series[0]))
    return None


def known_to(trainer: Trainer, names: Collection[str]) -> list[str]:
    """Return the names of which `ours_of` takes anything."""
    patterns = [*trainer.metrics.values(), *(part for parts in trainer.seconds.values() for part in parts)]
    matched = {name for several in patterns for pattern in several for name in matching(pattern, names)}
    return [name for name in names if name in matched]


def ours_of(trainer: Trainer, values: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the numbers of a step by our names, and its seconds by phase ('step' is the whole, where it is timed)."""
    metrics, phases = _theirs(trainer, tuple(values))
    ours = {metric: values[name] for metric, name in metrics}
    return ours, {phase: sum([values[name] for name in parts]) for phase, parts in phases}


@lru_cache(maxsize=4096)  # a log has few kinds of rows, and many of each
def _theirs(trainer: Trainer, names: tuple[str, ...]) -> tuple[list[tuple[str, str]], list[tuple[str, list[str]]]]:
    """Return the name of each of our metrics, and those of each phase: what the first of its patterns fits."""

    def first(patterns: Patterns) -> str | None:
        return next((name for pattern in patterns for name in matching(pattern, names)), None)

    metrics = [(metric, name) for metric, of in trainer.metrics.items() if (name := first(of)) is not None]
    phases = ((phase, [name for part in parts if (name := first(part))]) for phase, parts in trainer.seconds.items())
    return metrics, [(phase, parts) for phase, parts in phases if parts]
