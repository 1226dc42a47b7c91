"""The configurations of a sweep with their trials, best first, as all charts order and name them."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.axes import named_configuration
from planner.recommending.choice import Choice
from planner.store.records import RankedRow
from planner.store.schema import Candidate
from planner.view import Configuration
from rlplan.reading.story import Beliefs, Cell, Story
from rlplan.reading.sweep_picture import TrialRow


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of a configuration at the target."""

    expected_score: float | None
    score_low: float | None
    score_high: float | None
    probability_best: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """A configuration with its trials; `rank` counts from 1, None where nothing ranks it."""

    configuration: Configuration
    rank: int | None
    outlook: Expected | None
    trials: tuple[TrialRow, ...]

    @property
    def label(self) -> str:
        """How the configuration is called."""
        return named_configuration(self.configuration)


def configuration_of(row: TrialRow | RankedRow | Choice | Cell | Candidate) -> Configuration:
    """Return what a row is of: (n, B) with the further axes."""
    return Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)


def chosen(story: Story, beliefs: Beliefs | None) -> Configuration | None:
    """Return what is recommended, None where nothing is."""
    if beliefs is not None:
        return beliefs.recommended.answer.chosen.configuration if beliefs.recommended else None
    ranking = story.picture.answer.ranking if story.picture.answer else ()
    return configuration_of(ranking[0]) if ranking else None


def expected_of(story: Story, beliefs: Beliefs | None) -> dict[Configuration, Expected]:
    """Return what is expected of each configuration, the recommended one first and then by rank.

    Until the beliefs are there, the ranking that the sweep stored last speaks for them.
    """
    ranked: tuple[Choice | RankedRow, ...] = ()
    if beliefs is not None and beliefs.recommended is not None:
        ranked = beliefs.recommended.answer.ranked
    elif beliefs is None and story.picture.answer is not None:
        ranked = story.picture.answer.ranking
    return {
        configuration_of(row): Expected(row.expected_score, row.score_low, row.score_high, row.probability_best)
        for row in ranked
        if row.expected_score is not None
    }


def groups(story: Story, beliefs: Beliefs | None) -> tuple[Group, ...]:
    """Return the configurations that have a trial or an outlook, by rank; those without one after them."""
    return tuple(_groups(story, beliefs))


def _groups(story: Story, beliefs: Beliefs | None) -> Iterator[Group]:
    trials: dict[Configuration, list[TrialRow]] = {}
    for trial in sorted(story.picture.trials, key=lambda each: each.promise):
        trials.setdefault(configuration_of(trial), []).append(trial)
    known = expected_of(story, beliefs)
    for rank, (configuration, outlook) in enumerate(known.items(), start=1):
        yield Group(configuration, rank, outlook, _by_seed(trials.pop(configuration, [])))
    for configuration, rest in trials.items():
        yield Group(configuration, None, None, _by_seed(rest))


def _by_seed(trials: list[TrialRow]) -> tuple[TrialRow, ...]:
    return tuple(sorted(trials, key=lambda trial: (trial.seed, trial.id)))
