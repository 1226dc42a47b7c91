"""Writes the dashboard's pages."""

from functools import cache
from typing import TYPE_CHECKING, Any

from rlplan.reading.story import Story
from rlplan.reading.sweep_words import tally, time_of
from rlplan.web.dashboard.assets import address
from rlplan.web.dashboard.believer import Known
from rlplan.web.dashboard.snapshot import Snapshot
from rlplan.web.page import SECTIONS, TITLES, encodable, environment, section

if TYPE_CHECKING:
    from jinja2 import Environment

NOW = "now"  # the section that says how the sweep stands at this moment; only a live page has it
ALL = (NOW, *SECTIONS)
# Of a large sweep these come when the reader gets to them, so that the page itself is there at once.
LARGE = ("curves", "frontier", "budget", "decisions")


@cache
def _environment() -> "Environment":
    made = environment("rlplan.web.dashboard")
    made.globals["address"] = address
    return made


def written(template: str, **context: Any) -> str:
    """Render a template of the dashboard; every value that is no markup yet is escaped."""
    return encodable(_environment().get_template(template).render(context))


def part(name: str, story: Story, known: Known | None) -> str:
    """Render a section; one that cannot be rendered says so, and the others are there."""
    try:
        return _now(story, known) if name == NOW else section(name, story, known.beliefs if known else None)
    except Exception as error:  # a damaged row may make any part of it fail, in ways that nobody has listed
        return written("broken.html", title=TITLES.get(name, "Now"), kind=type(error).__name__)


def _now(story: Story, known: Known | None) -> str:
    picture = story.picture
    money = picture.money
    whole = max(money.pilot_gpu_hours, money.spent + money.reserved) or 1.0
    return written(
        "now.html",
        picture=picture,
        state="abandoned" if picture.abandoned else "paused" if picture.paused_since else picture.status.value,
        time=time_of(picture),
        tally=tally(picture.trials),
        spent_share=100 * money.spent / whole,
        reserved_share=100 * money.reserved / whole,
        known=known,
    )


def sweep_page(snapshot: Snapshot, seal: str | None) -> str:
    """Write the page of a sweep; with a seal it has the buttons that control it."""
    from markupsafe import Markup  # noqa: PLC0415

    # What comes later is fetched even if it is there: the page itself is to be small.
    ready = {name: part for name, part in snapshot.parts.items() if not (snapshot.is_large and name in LARGE)}
    sections = [
        {
            "name": name,
            "title": TITLES.get(name, "Now"),
            "version": ready[name].version if name in ready else "",
            "html": Markup(ready[name].html) if name in ready else None,
        }
        for name in ALL
    ]
    picture = snapshot.story.picture
    return written("sweep.html", picture=picture, story=snapshot.story, sections=sections, seal=seal)
