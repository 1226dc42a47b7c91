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
        return any(score.step for score in self.run.scores)


@dataclass(frozen=True)
class ComparableRuns:
    """Runs that compare, and others that have but a price."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]

    @property
    def curves(self) -> tuple[Entry, ...]:
        """The runs with a curve."""
        return tuple(entry for entry in self.entries if entry.scored)


def missing_flags(entries: Sequence[Entry]) -> dict[Path, list[str]]:
    """Return by run the flags that must say what could not be read."""
    missing = {entry.run.path: entry.settings.missing() for entry in entries}
    return {path: flags for path, flags in missing.items() if flags}


def compare_runs(entries: Sequence[Entry], *, same_scores: bool = False) -> ComparableRuns:
    """Put runs side by side; InputError names those that lack something, or do not compare, and what to do.

    `same_scores` says that whatever serves as the score is of the same problems.
    """
    _require_known(entries)
    curves = [entry for entry in entries if entry.scored]
    _require_same(curves, "models", lambda member: member.settings.model, "adopt them one model at a time")
    if not same_scores:
        remedy = "if they are of the same problems, say so by naming each with --score"
        _require_same(curves, "validation problems", lambda member: member.run.problems, remedy)
    axes, notes = _axes(entries)
    placed: list[Entry] = []
    for member, own_axes in zip(entries, axes, strict=True):
        seeds = {
            p.seed
            for p in placed
            if (p.allocation, p.axes) == (member.allocation, own_axes) and p.scored == member.scored
        }
        wanted = member.settings.seed or 0
        seed = next(number for number in (wanted, *range(len(entries) + 1)) if number not in seeds)
        placed.append(replace(member, axes=own_axes, seed=seed))
    differing: dict[str, set[object]] = {
        "GPUs": {curve.settings.gpus for curve in curves},
        "trainers": {curve.run.trainer for curve in curves},
        "most tokens of a response": {curve.settings.response_tokens for curve in curves},
    }
    for label, variants in differing.items():
        values = variants - {None}
        if len(values) > 1:
            notes.append(
                f"the runs differ in {label} ({', '.join(map(str, sorted(values, key=str)))}): their GPU-hours "
                "compare only roughly"
            )
    return ComparableRuns(tuple(placed), tuple(notes))


def _require_known(entries: Sequence[Entry]) -> None:
    if unknown := missing_flags(entries):
        flags = sorted({flag for names in unknown.values() for flag in names})
        where = "; ".join(f"{path.name} lacks {', '.join(flags)}" for path, flags in unknown.items())
        raise InputError(
            f"not all settings can be read: {where}. Give {' '.join(f'{flag} …' for flag in flags)} for all runs, or a "
            "file of settings in each folder; --dry-run shows what was read"
        )
    for entry in entries:
        if entry.allocation[0] < _FEWEST:
            raise InputError(
                f"'{entry.run.path}' has {entry.allocation[0]} rollouts per prompt: what is compared here "
                "are groups of two or more"
            )
        if entry.scored and not entry.run.timed:
            raise InputError(f"'{entry.run.path}' does not say how long its steps took: give --seconds-per-step")
        scores = [score.score or 0.0 for score in entry.run.scores]
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        if not 0 <= low <= high <= 1:
            raise InputError(
                f"'{entry.run.path}' has scores from {low:.4g} to {high:.4g}, and a score lies between 0 and 1: give "
                "--percent where they are percentages, or another series with --score"
            )


def _require_same(entries: Sequence[Entry], label: str, of: Callable[[Entry], str | None], remedy: str) -> None:
    first_with: dict[str | None, str] = {}
    for entry in entries:
        first_with.setdefault(of(entry), entry.run.path.name)
    if len(first_with) > 1:
        listing = ", ".join(f"{value} ({name})" for value, name in first_with.items())
        raise InputError(f"the runs have different {label}: {listing}. Their scores do not compare; {remedy}")


def _axes(entries: Sequence[Entry]) -> tuple[list[Axes], list[str]]:
    """Return what tells each run from the others beside n and B, and what is to be said of it."""
    notes: list[str] = []
    recipes = [entry.settings.recipe for entry in entries]
    if len(set(recipes)) > 1 and None in recipes:
        unknown = next(entry.run.path.name for entry in entries if entry.settings.recipe is None)
        raise InputError(
            f"the recipe of {unknown} is not told by its settings, and other runs name theirs "
            f"({', '.join(sorted(r for r in set(recipes) if r))}): give --recipe for all"
        )
    by_recipe: list[Axes] = [((RECIPE, recipe),) if len(set(recipes)) > 1 and recipe else () for recipe in recipes]
    rates = [entry.learning_rate for entry in entries]
    if len(set(rates)) > 1:
        factors = [entry.learning_rate / math.sqrt(scaling_rollouts(math.prod(entry.allocation))) for entry in entries]
        middle, usual = statistics.median(factors), Counter(rates).most_common(1)[0][0]
        if not all(abs(factor / middle - 1) <= _SAME_RATE for factor in factors):  # they do not rise with √(n·B)
            pairs = zip(by_recipe, rates, strict=True)
            by_recipe = [(*axes, (LEARNING_RATE, float(f"{rate / usual:.3g}"))) for axes, rate in pairs]
    elif len({math.prod(entry.allocation) for entry in entries}) > 1:
        notes.append(
            f"all batches were trained at {rates[0]:.3g}: a rate that fits one may not fit another, and their "
            "difference is in part one of rates"
        )
    return by_recipe, notes
