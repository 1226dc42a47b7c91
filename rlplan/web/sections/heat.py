"""The map over (n, B)."""

from typing import Any

from rlplan.charts.groups import outlooks
from rlplan.charts.heat import heat_maps
from rlplan.reading.story import Beliefs, Story


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    return {"variants": heat_maps(story, beliefs) if outlooks(story, beliefs) else ()}
