"""The budget: where the GPU-hours went, and which trial used which worker when."""

from typing import Any

from rlplan.charts.budget import budget_chart, used
from rlplan.charts.timeline import timelines
from rlplan.reading.story import Beliefs, Story


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    return {
        "chart": budget_chart(story),
        "timelines": timelines(story, beliefs),
        "uses": used(story),
        "money": story.picture.money,
    }
