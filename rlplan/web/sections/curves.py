"""The learning curves: a panel for each configuration."""

from typing import Any

from rlplan.charts.curves import curve_panels
from rlplan.reading.story import Beliefs, Story

FIRST = 20  # panels that are shown before one asks for more


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    panels = curve_panels(story, beliefs)
    return {
        "panels": panels.charts,
        "logarithmic": panels.logarithmic,
        "first": FIRST,
        "metric": story.picture.metric,
        "banded": bool(beliefs and beliefs.bands),
        "cut": bool(beliefs and beliefs.cuts),
    }
