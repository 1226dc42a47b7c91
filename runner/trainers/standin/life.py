"""What a stand-in's trial will do: its world's seconds, scores and breakdowns, step by step."""

from typing import Any

from runner.ports.trial import TrialConfig
from runner.simulation.world import Course, course_of


def rows_of(config: TrialConfig | dict[str, Any], first: int, last: int) -> list[list[Any]]:
    """Return seconds, score, its error and what breaks down, of each step from one to another."""
    checked = config if isinstance(config, TrialConfig) else TrialConfig.model_validate(config)
    course = course_of(checked)
    return [_row(course, step) for step in range(first, last + 1)]


def _row(course: Course, step: int) -> list[Any]:
    point, breakdown = course.point(step), course.breakdown(step - 1, step)
    kind = None if breakdown is None else breakdown.kind
    return [point.seconds, point.score, point.score_standard_error, kind]
