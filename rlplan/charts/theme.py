"""Colours by their names in the theme of the page, which looks them up: for light and for dark."""

INK, MUTED, PAPER, QUIET = "$ink", "$muted", "$surface", "$quiet"
ACCENT, GOOD, MIND, BAD = "$accent", "$good", "$mind", "$bad"
SERIES = tuple(f"$series-{number}" for number in range(1, 7))


def faded(colour: str, opacity: float) -> str:
    """Return a colour of the theme that lets through what lies below it."""
    return f"{colour}/{opacity:g}"
