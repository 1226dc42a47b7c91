"""The budget: where the GPU-hours went, and which trial used which worker when."""

from typing import Any

from rlplan.overview.story import Beliefs, Story
from rlplan.web.charts.budget import budget_chart, used
from rlplan.web.charts.timeline import timelines


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    return {
        "chart": budget_chart(story),
        "timelines": timelines(story, beliefs),
        "uses": used(story),
        "money": story.picture.money,
    }
