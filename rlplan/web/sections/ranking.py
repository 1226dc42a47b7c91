"""The ranked table: every configuration with what is expected of it and what was spent on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from planner.axes import said
from planner.recommending.answer import Answer
from planner.recommending.choice import Choice
from planner.view import Configuration
from rlplan.charts.groups import configuration_of, groups
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import Ranked


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table; None where nothing is known."""

    rank: int | None
    configuration: Configuration
    status: str
    spent: float
    learning_rate: float | None
    update_steps: int | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    probability_best: float | None = None
    within_002: float | None = None
    regret: float | None = None
    collapse_risk: float | None = None
    reached: float | None = None
    seeds: int = 0

    @property
    def axes(self) -> str:
        """What further axes the configuration has, in words."""
        return said(self.configuration.axes)


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    answer = beliefs.recommended.answer if beliefs is not None and beliefs.recommended is not None else None
    lines = list(_lines(story, beliefs))
    known = [each for line in lines for each in (line.low, line.high, line.expected) if each is not None]
    return {
        "lines": lines,
        "low": min(known, default=0.0),
        "high": max(known, default=1.0),
        "with_axes": any(line.axes for line in lines),
        "believed": answer is not None,
        "target": answer.target_gpu_hours if answer is not None else story.target_gpu_hours,
    }


def _lines(story: Story, beliefs: Beliefs | None) -> Iterator[Line]:
    if beliefs is not None and beliefs.recommended is not None:
        yield from _believed(beliefs.recommended.answer)
    elif beliefs is None and story.picture.answer is not None:
        yield from (_stored(row) for row in story.picture.answer.ranking)
    else:
        yield from _unranked(story)


def _believed(answer: Answer) -> Iterator[Line]:
    for rank, choice in enumerate(answer.ranked, start=1):
        yield _line(rank, choice)
    for configuration, facts in answer.left_out.items():
        yield Line(
            rank=None,
            configuration=configuration,
            status="failed" if facts.failed else f"{facts.status}, too dear",
            spent=facts.gpu_hours_spent,
            learning_rate=facts.learning_rate,
            reached=facts.reached_gpu_hours or None,
            seeds=facts.seeds_seen,
        )


def _line(rank: int, choice: Choice) -> Line:
    return Line(
        rank=rank,
        configuration=choice.configuration,
        status=choice.status,
        spent=choice.gpu_hours_spent,
        learning_rate=choice.learning_rate,
        update_steps=choice.update_steps,
        expected=choice.expected_score,
        low=choice.score_low,
        high=choice.score_high,
        probability_best=choice.probability_best,
        within_002=choice.probability_within_002,
        regret=choice.expected_regret,
        collapse_risk=choice.collapse_risk,
        reached=choice.reached_gpu_hours if choice.seeds_seen else None,
        seeds=choice.seeds_seen,
    )


def _stored(row: Ranked) -> Line:
    return Line(
        rank=row.rank,
        configuration=configuration_of(row),
        status=row.status,
        spent=row.gpu_hours_spent,
        learning_rate=row.learning_rate,
        update_steps=row.update_steps,
        expected=row.expected_score,
        low=row.score_low,
        high=row.score_high,
        probability_best=row.probability_best,
    )


def _unranked(story: Story) -> Iterator[Line]:
    """List what was tried although nothing can be ranked."""
    for group in groups(story, None):
        yield Line(
            rank=None,
            configuration=group.configuration,
            status=", ".join(dict.fromkeys(trial.state.value for trial in group.trials)),
            spent=sum(trial.gpu_hours_spent for trial in group.trials),
            learning_rate=group.trials[0].learning_rate if group.trials else None,
            reached=max((trial.scores[-1].gpu_hours for trial in group.trials if trial.scores), default=None),
            seeds=len(group.trials),
        )
