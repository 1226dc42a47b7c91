"""The sections of a sweep's page as HTML, for the report and for the dashboard; neither holds scripts or handlers."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from budgets.errors import UnknownNameError
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_words import tally
from rlplan.web import sections

if TYPE_CHECKING:
    from jinja2 import Environment

Context = Callable[[Story, Beliefs | None], Mapping[str, Any]]

# In the order of the page: each section's title, and what its template shows.
_SECTIONS: dict[str, tuple[str, Context]] = {
    "answer": ("Recommendation", sections.answer_section),
    "frontier": ("Frontier", sections.frontier_section),
    "curves": ("Curves", sections.curves_section),
    "heat": ("Map", sections.heat_section),
    "budget": ("Budget", sections.budget_section),
    "decisions": ("Decisions", sections.decisions_section),
    "health": ("Health", sections.health_section),
    "ranking": ("Ranking", sections.ranking_section),
}
SECTIONS = tuple(_SECTIONS)
TITLES = {name: title for name, (title, _) in _SECTIONS.items()}
STYLES = ("theme.css", "page.css")
SCRIPTS = ("template.js", "rlplan.js", "tables.js", "page.js")
PLOTLY = "plotly-cartesian.min.js"  # the whole of plotly, with maps and 3D, keeps a browser busy for a second longer


def section(name: str, story: Story, beliefs: Beliefs | None) -> str:
    """Return one section as HTML; without beliefs it says that they are being computed, and shows what rows tell."""
    if name not in _SECTIONS:
        raise UnknownNameError("section", name, SECTIONS)
    return rendered(f"sections/{name}.html", story=story, beliefs=beliefs, **_SECTIONS[name][1](story, beliefs))


def summary(story: Story) -> str:
    """Return the tiles that say what a sweep has spent and seen."""
    picture = story.picture
    scores = sum(len(trial.scores) for trial in picture.trials)
    return rendered("summary.html", picture=picture, tally=tally(picture.trials), scores=scores)


def rendered(template: str, **context: Any) -> str:
    """Render a template of the package; every value that is no markup yet is escaped."""
    return encodable(environment().get_template(template).render(context))


def encodable(text: str) -> str:
    """Return a text that can be written: JSON in a row may hold halves of characters, which no file can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


@cache
def environment() -> "Environment":
    """Return the templates with the filters that they write numbers with."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=PackageLoader("rlplan.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(sections.FILTERS)
    return made


def contents() -> dict[str, Any]:
    """Return what a page that needs nothing beside it holds itself: all of this is ours."""
    from markupsafe import Markup  # noqa: PLC0415

    return {"styles": Markup(styles()), "scripts": Markup(scripts()), "plotly": Markup(plotly_script())}


def styles() -> str:
    """Return the page's own CSS."""
    return "\n".join(_static(name) for name in STYLES)


def scripts() -> str:
    """Return the page's own JavaScript; `rlplan.draw(root)` draws the charts below an element."""
    return "\n".join(map(_static, SCRIPTS))


@cache
def plotly_script() -> str:
    """Return plotly's JavaScript, which has to come before the page's own."""
    return _static(PLOTLY)


def _static(name: str) -> str:
    return (files("rlplan.web") / "static" / name).read_text(encoding="utf-8")
