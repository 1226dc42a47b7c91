"""Several runs side by side: what they differ in becomes an axis, and what does not compare is refused by its name."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from budgets.allocation import scaling_rollouts
from budgets.errors import InputError
from planner.axes import LEARNING_RATE, RECIPE
from planner.scripts.records import LoggedRun, gpu_hours
from planner.scripts.settings import GpuSplit, Settings
from planner.view import Axes, Configuration

_SAME_RATE = 0.05  # by so much a rate may miss a rule and follow it
_FEWEST = 2  # responses to a prompt that can be compared with each other


@dataclass(frozen=True)
class Entry:
    """A run with its settings, and what sets it apart from the others."""

    run: LoggedRun
    settings: Settings
    axes: Axes = ()
    seed: int = 0
    split: GpuSplit = GpuSplit()  # noqa: RUF009 (frozen)

    @property
    def allocation(self) -> tuple[int, int]:
        """(n, B)."""
        return self.settings.rollouts_per_prompt or 0, self.settings.prompts_per_batch or 0

    @property
    def learning_rate(self) -> float:
        """As it was trained with."""
        return self.settings.learning_rate or 0.0

    @property
    def configuration(self) -> Configuration:
        """What it is compared as."""
        return Configuration(*self.allocation, self.axes)

    @property
    def gpu_hours(self) -> float:
        """What it took in all; 0 where nothing says how long it took."""
        return gpu_hours(self.run.steps, self.settings.gpus or 1)[-1] if self.run.timed else 0.0

    @property
    def scored(self) -> bool:
        """Whether it was validated after an update: it has a curve."""
        return any(each.step for each in self.run.scores)


@dataclass(frozen=True)
class ComparableRuns:
    """Runs that compare, and others that have but a price."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]

    @property
    def curves(self) -> tuple[Entry, ...]:
        """The runs with a curve."""
        return tuple(each for each in self.entries if each.scored)


def missing_flags(entries: Sequence[Entry]) -> dict[Path, list[str]]:
    """Return by run the flags that must say what could not be read."""
    found = {each.run.path: each.settings.missing() for each in entries}
    return {path: flags for path, flags in found.items() if flags}


def compare_runs(entries: Sequence[Entry], *, same_scores: bool = False) -> ComparableRuns:
    """Put runs side by side; InputError names those that lack something, or do not compare, and what to do.

    `same_scores` says that whatever serves as the score is of the same problems.
    """
    _require_known(entries)
    curves = [each for each in entries if each.scored]
    _require_same(curves, "models", lambda each: each.settings.model, "adopt them one model at a time")
    if not same_scores:
        remedy = "if they are of the same problems, say so by naming each with --score"
        _require_same(curves, "validation problems", lambda each: each.run.problems, remedy)
    axes, notes = _axes(entries)
    placed: list[Entry] = []
    for each, own in zip(entries, axes, strict=True):
        taken = {p.seed for p in placed if (p.allocation, p.axes) == (each.allocation, own) and p.scored == each.scored}
        wanted = each.settings.seed or 0
        seed = next(number for number in (wanted, *range(len(entries) + 1)) if number not in taken)
        placed.append(replace(each, axes=own, seed=seed))
    differing: dict[str, set[object]] = {
        "GPUs": {each.settings.gpus for each in curves},
        "trainers": {each.run.trainer for each in curves},
        "most tokens of a response": {each.settings.response_tokens for each in curves},
    }
    for what, found in differing.items():
        values = found - {None}
        if len(values) > 1:
            notes.append(
                f"the runs differ in {what} ({', '.join(map(str, sorted(values, key=str)))}): their GPU-hours "
                "compare only roughly"
            )
    return ComparableRuns(tuple(placed), tuple(notes))


def _require_known(entries: Sequence[Entry]) -> None:
    if unknown := missing_flags(entries):
        flags = sorted({flag for each in unknown.values() for flag in each})
        where = "; ".join(f"{path.name} lacks {', '.join(flags)}" for path, flags in unknown.items())
        raise InputError(
            f"not all settings can be read: {where}. Give {' '.join(f'{flag} …' for flag in flags)} for all runs, or a "
            "file of settings in each folder; --dry-run shows what was read"
        )
    for each in entries:
        if each.allocation[0] < _FEWEST:
            raise InputError(
                f"'{each.run.path}' has {each.allocation[0]} rollouts per prompt: what is compared here "
                "are groups of two or more"
            )
        if each.scored and not each.run.timed:
            raise InputError(f"'{each.run.path}' does not say how long its steps took: give --seconds-per-step")
        scores = [score.score or 0.0 for score in each.run.scores]
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        if not 0 <= low <= high <= 1:
            raise InputError(
                f"'{each.run.path}' has scores from {low:.4g} to {high:.4g}, and a score lies between 0 and 1: give "
                "--percent where they are percentages, or another series with --score"
            )


def _require_same(entries: Sequence[Entry], what: str, of: Callable[[Entry], str | None], remedy: str) -> None:
    found: dict[str | None, str] = {}
    for each in entries:
        found.setdefault(of(each), each.run.path.name)
    if len(found) > 1:
        listing = ", ".join(f"{value} ({name})" for value, name in found.items())
        raise InputError(f"the runs have different {what}: {listing}. Their scores do not compare; {remedy}")


def _axes(entries: Sequence[Entry]) -> tuple[list[Axes], list[str]]:
    """Return what tells each run from the others beside n and B, and what is to be said of it."""
    notes: list[str] = []
    recipes = [each.settings.recipe for each in entries]
    if len(set(recipes)) > 1 and None in recipes:
        unknown = next(each.run.path.name for each in entries if each.settings.recipe is None)
        raise InputError(
            f"the recipe of {unknown} is not told by its settings, and other runs name theirs "
            f"({', '.join(sorted(r for r in set(recipes) if r))}): give --recipe for all"
        )
    own: list[Axes] = [((RECIPE, recipe),) if len(set(recipes)) > 1 and recipe else () for recipe in recipes]
    rates = [each.learning_rate for each in entries]
    if len(set(rates)) > 1:
        factors = [each.learning_rate / math.sqrt(scaling_rollouts(math.prod(each.allocation))) for each in entries]
        middle, usual = statistics.median(factors), Counter(rates).most_common(1)[0][0]
        if not all(abs(factor / middle - 1) <= _SAME_RATE for factor in factors):  # they do not rise with √(n·B)
            pairs = zip(own, rates, strict=True)
            own = [(*axes, (LEARNING_RATE, float(f"{rate / usual:.3g}"))) for axes, rate in pairs]
    elif len({math.prod(each.allocation) for each in entries}) > 1:
        notes.append(
            f"all batches were trained at {rates[0]:.3g}: a rate that fits one may not fit another, and their "
            "difference is in part one of rates"
        )
    return own, notes
