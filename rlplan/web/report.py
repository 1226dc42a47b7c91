"""Writes a sweep's report: one HTML file that needs no network and nothing beside it."""

from importlib.metadata import version
from pathlib import Path

from budgets.errors import InputError
from planner.store import open_store
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_words import tally
from rlplan.web import page
from rlplan.wording.file_writing import put_file, refuse_database

SUFFIXES = (".html", ".htm")


def write_report(out: Path, database: str, sweep: str | None) -> Path:
    """Read a sweep, by default the newest, and write its report; InputError where no such file can be."""
    from rlplan.reading.believing import beliefs  # noqa: PLC0415
    from rlplan.reading.story_reading import story  # noqa: PLC0415

    path = checked(out)  # before the curves are fitted, which takes a while
    with open_store(database, read_only=True) as store:
        told = story(store, sweep)
    save(path, report(told, beliefs(database, told.picture.sweep)))
    return path


def report(story: Story, beliefs: Beliefs | None) -> str:
    """Return the whole page."""
    from markupsafe import Markup  # noqa: PLC0415

    picture = story.picture
    summary = page.rendered(
        "summary.html",
        picture=picture,
        tally=tally(picture.trials),
        scores=sum(len(trial.scores) for trial in picture.trials),
    )
    # All of this is ours or was escaped when its template was rendered.
    return page.rendered(
        "report.html",
        story=story,
        picture=picture,
        state="abandoned" if picture.abandoned else "paused" if picture.paused_since else picture.status.value,
        titles=page.TITLES,
        summary=Markup(summary),
        parts=[Markup(page.section(name, story, beliefs)) for name in page.SECTIONS],
        styles=Markup(page.styles()),
        scripts=Markup(page.scripts()),
        plotly=Markup(page.plotly_script()),
        version=version("rlplan"),
    )


def checked(out: Path) -> Path:
    """Return the path of a report that can be written; nothing is created for it."""
    if out.is_dir():
        raise InputError(f"{out} is a folder: name the file in it, such as {out / 'report.html'}")
    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"{out} does not end in .html, as a report has to: name it {out.with_suffix('.html')}")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist: make it first, with `mkdir -p {out.parent}`")
    refuse_database(out)
    return out


def save(path: Path, text: str) -> None:
    """Write a file at once: who reads it finds the old one or the whole new one."""
    put_file(path, text.encode("utf-8"), force=True)
