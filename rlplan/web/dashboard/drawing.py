"""A story with no more points than a screen can show, so that a sweep of a thousand trials is drawn in a moment."""

from dataclasses import replace

from rlplan.charts.thinning import thinned_curve
from rlplan.reading.story import Story
from rlplan.reading.sweep_picture import Score, TrialRow

MOST_POINTS = 20_000  # on one page
FEWEST_POINTS = 24  # of one trial: enough for its shape
FEW_ROWS = 3000  # that are drawn at once, whoever looks

# Of each trial: its scores as they were read, how many of them were wanted, and which are drawn.
Drawn = dict[int, tuple[tuple[Score, ...], int, tuple[Score, ...]]]


def drawable(story: Story, drawn: Drawn) -> Story:
    """Return the story with the points that are drawn; `drawn` keeps those of trials that have not changed."""
    trials = story.picture.trials
    if sum(len(trial.scores) for trial in trials) <= MOST_POINTS:
        return story
    most = max(FEWEST_POINTS, MOST_POINTS // len(trials))
    return replace(story, picture=replace(story.picture, trials=tuple(_thinned(each, most, drawn) for each in trials)))


def _thinned(trial: TrialRow, most: int, drawn: Drawn) -> TrialRow:
    before = drawn.get(trial.id)
    if before is None or before[0] is not trial.scores or before[1] != most:
        before = drawn[trial.id] = (trial.scores, most, tuple(thinned_curve(trial.scores, most)))
    return replace(trial, scores=before[2])


def is_large(story: Story) -> bool:
    """Whether to draw all of it takes so long that each part waits until somebody looks at it."""
    points = sum(len(trial.scores) for trial in story.picture.trials)
    return points + len(story.stretches) + len(story.decisions) > FEW_ROWS
