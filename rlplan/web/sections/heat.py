"""The map over (n, B)."""

from typing import Any

from rlplan.overview.story import Beliefs, Story
from rlplan.web.charts.groups import outlooks
from rlplan.web.charts.heat import heat_maps


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    return {"variants": heat_maps(story, beliefs) if outlooks(story, beliefs) else ()}
