"""The decision log, the newest first, each with the numbers that it rested on."""

from collections.abc import Mapping
from typing import Any

from rlplan.reading.story import Beliefs, Decision, Story
from rlplan.web.filters import figure, words

FIRST = 25  # rows that are shown before one asks for more
MOST_ALTERNATIVES = 3  # of a decision
WIDEST = 32  # letters of a name in its column
SAID = ("action", "trial", "name")  # of an alternative, by its name


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    return {
        "decisions": story.decisions[::-1],
        "actions": list(dict.fromkeys(each.action for each in story.decisions)),
        "first": FIRST,
        "numbers": numbers,
    }


def numbers(decision: Decision) -> str:
    """Write what a decision looked at and what else it could have been, a line each."""
    lines = [(words(str(key)), figure(value)) for key, value in decision.seen.items()]
    others = [_alternative(each) for each in decision.alternatives[:MOST_ALTERNATIVES]]
    lines += [(f"or {name}", figure(dict(rest))) for name, rest in others]
    wide = min(WIDEST, max((len(name) for name, _ in lines), default=0))
    written = [f"{name:<{wide}}  {value}".rstrip() for name, value in lines]
    more = len(decision.alternatives) - MOST_ALTERNATIVES
    return "\n".join([*written, *([f"or {more} more"] if more > 0 else [])])


def _alternative(given: Any) -> tuple[str, Mapping[str, Any]]:
    """Return what else could have been done, as a name and its numbers; a row may hold anything."""
    if not isinstance(given, Mapping):
        return str(given), {}
    action, name = given.get("action"), given.get("name") or given.get("trial")
    said = " ".join(str(part) for part in (action, name) if part is not None)
    return said or "another", {key: value for key, value in given.items() if key not in SAID}
