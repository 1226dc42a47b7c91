"""The recommendation: a sentence, the numbers to look at first, the command; or why there is none and what to do."""

from typing import Any

from planner.axes import said
from planner.store.schema import SweepStatus
from rlplan.printing.recommend_output import wrapped_command
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_words import sentence

WIDTH = 100  # columns of the command


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows; the sweep's stored answer stands in until the beliefs are there."""
    found = beliefs.recommended if beliefs is not None else None
    stored = story.picture.answer if beliefs is None else None
    answer = found.answer if found is not None else None
    return {
        "answer": answer,
        "launch": found.launch if found is not None else None,
        "command": _command(found.launch.command) if found is not None else None,
        "named": said(answer.chosen.axes) if answer is not None else "",
        "stored": sentence(stored) if stored is not None else None,
        "why_not": _why_not(beliefs),
        "what_to_do": _what_to_do(story.picture),
        "picture": story.picture,
    }


def _command(arguments: tuple[str, ...] | None) -> str | None:
    return None if arguments is None else "\n".join(wrapped_command(arguments, WIDTH))


def _why_not(beliefs: Beliefs | None) -> str | None:
    if beliefs is None or beliefs.why_not is None:
        return None
    return beliefs.why_not.removeprefix("no recommendation: ").rstrip(".")


def _what_to_do(picture: Picture) -> str:
    """Say how a sweep without a recommendation gets one."""
    if picture.status is SweepStatus.RUNNING and not picture.abandoned:
        return "The sweep runs: the recommendation comes with the first scores of its trials."
    if picture.failures:
        return f"Look at the health flags below, then run what failed again: rlplan retry {picture.sweep}"
    if picture.abandoned or picture.status is not SweepStatus.FINISHED:
        return f"Go on with the sweep: rlplan resume {picture.sweep}"
    return "Start a sweep with more GPU-hours: rlplan sweep --budget <gpu-hours>"
