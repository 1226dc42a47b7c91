"""The configurations of a sweep with their trials, best first, as all charts order and name them."""

from dataclasses import dataclass

from planner.axes import named_configuration
from planner.recommending.answer import FinalAnswer
from planner.recommending.choosing import Choice
from planner.store.records import RankedRow
from planner.store.schema import Candidate
from planner.view import Configuration
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import TrialRow

# What is expected of a configuration at the target; of a candidate before anything has run, without P(best).
Expected = Choice | RankedRow | Candidate


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


def configuration_of(row: TrialRow | RankedRow | Choice | Candidate) -> Configuration:
    """Return what a row is of: (n, B) with the further axes."""
    return Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)


def answer_in(beliefs: Beliefs | None) -> FinalAnswer | None:
    """Return what is recommended from what is believed, None where nothing is."""
    return beliefs.recommended.answer if beliefs is not None and beliefs.recommended is not None else None


def expected_of(story: Story, beliefs: Beliefs | None) -> dict[Configuration, Expected]:
    """Return what is expected of each configuration, the recommended one first and then by rank.

    Until the beliefs are there, the ranking that the sweep stored last speaks for them.
    """
    ranked: tuple[Choice | RankedRow, ...] = ()
    if (answer := answer_in(beliefs)) is not None:
        ranked = answer.ranked
    elif beliefs is None and story.picture.answer is not None:
        ranked = story.picture.answer.ranking
    return {configuration_of(row): row for row in ranked if row.expected_score is not None}


def groups(story: Story, beliefs: Beliefs | None) -> list[Group]:
    """Return the configurations that have a trial or an outlook, by rank; those without one by their promise."""
    outlooks = expected_of(story, beliefs)
    ranks = {configuration: rank for rank, configuration in enumerate(outlooks, start=1)}
    trials: dict[Configuration, list[TrialRow]] = {configuration: [] for configuration in outlooks}
    for trial in sorted(story.picture.trials, key=lambda trial: trial.promise):
        trials.setdefault(configuration_of(trial), []).append(trial)
    return [
        Group(key, ranks.get(key), outlooks.get(key), tuple(sorted(rows, key=lambda trial: (trial.seed, trial.id))))
        for key, rows in trials.items()
    ]
