"""Signs of health, and what the plan took for granted."""

from typing import Any

from rlplan.reading.story import Beliefs, Health, Story

ORDER = {Health.BAD: 0, Health.MIND: 1, Health.GOOD: 2}
WORDS = {Health.BAD: "bad", Health.MIND: "mind", Health.GOOD: "good"}


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows, what is bad first."""
    failed = [(kind, trials) for kind, trials in story.picture.failures.items()]
    return {
        "flags": sorted(story.flags, key=lambda flag: ORDER[flag.health]),
        "words": WORDS,
        "failed": failed,
        "assumptions": story.assumptions,
    }
