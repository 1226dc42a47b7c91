"""A console that writes no control sequence but its own, whatever the names and logs hold that are drawn on it."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rlplan.wording.terminal import harmless


class HarmlessConsole(Console):
    """Rich's console; what is drawn on it is text and nothing else."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render; colours and movements are Rich's own, and what a text holds of them is left out."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))
