"""Writes the report of a sweep or a plan: one HTML file that needs no network and nothing beside it."""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.axes import format_axes
from planner.store import open_store
from planner.store.schema import Plan
from rlplan.charts.grid import plan_maps
from rlplan.charts.money import split_chart
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_data import approximated
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweeps import about_plan, layout_of, plan_meant
from rlplan.web import page
from rlplan.wording.command_lines import command
from rlplan.wording.file_writing import put_file, refuse_database

PLAN_TITLES = {
    "plan": "Plan",
    "maps": "Map",
    "outlook": "Other budgets",
    "grid": "Priced grid",
    "assumptions": "Assumptions",
}
FIRST_ROWS = 40  # that are shown before one asks for more


def plan_sections(plan: Plan, database: str) -> list[str]:
    """Return the plan's sections as HTML; its rows are read meanwhile."""
    candidates = sorted(plan.candidates, key=lambda candidate: candidate.rank)
    pilots = [row for row in candidates if row.pilot_steps]
    ends = [v for row in candidates for v in (row.score_low, row.expected_score, row.score_high) if v is not None]
    shown: dict[str, Any] = {
        "plan": plan,
        "candidates": candidates,
        "best": candidates[0] if candidates else None,
        "pilots": pilots,
        "layout": layout_of(plan, len(pilots)),
        "taken": sum(pilot.pilot_gpu_hours for pilot in pilots),
        "split": split_chart(
            [
                (f"n = {pilot.rollouts_per_prompt}, B = {pilot.prompts_per_batch}", pilot.pilot_gpu_hours)
                for pilot in pilots
            ],
            plan.pilot_gpu_hours,
            plan.final_gpu_hours,
        ),
        "command": command("sweep", plan.name, database),
        "variants": plan_maps(candidates) if candidates else (),
        "scored": bool(ends),
        "low": min(ends, default=0.0),
        "high": max(ends, default=1.0),
        "first": FIRST_ROWS,
        "said": format_axes,
        "with_axes": any(candidate.axes for candidate in candidates),
        "outlook_axes": any(row.get("axes") for row in plan.outlook),
    }
    return [page.rendered(f"plan/{name}.html", **shown) for name in PLAN_TITLES]


SUFFIXES = (".html", ".htm")


def write_report(out: Path, database: str, name: str | None) -> Path:
    """Write the report of a sweep, by default the newest, or of a plan that none has run; InputError for a bad file."""
    from rlplan.reading.beliefs import story_and_beliefs  # noqa: PLC0415

    path = checked(out.expanduser())  # before the curves are fitted, which takes a while
    with open_store(database, read_only=True) as store:
        with store.read() as session:
            plan = plan_meant(session, name)
            html = plan_report(plan, database) if plan is not None else None
        if html is None:
            html = report(*story_and_beliefs(store, name))
    save(path, html)
    return path


def report(story: Story, beliefs: Beliefs | None) -> str:
    """Return the whole page of a sweep."""
    picture = story.picture
    return _page(
        [page.summary(story), *(page.section(name, story, beliefs) for name in page.SECTIONS)],
        name=picture.sweep,
        state=picture.state,
        about=about_sweep(picture),
        read_at=story.read_at,
        titles=page.TITLES,
    )


def about_sweep(picture: Picture) -> str:
    """Say what a sweep runs, by which policy, and what of it was approximated."""
    what = f"{picture.workload}, {picture.plan}, policy {picture.policy}, seed {picture.seed}"
    return "; ".join([what, *approximated(picture.config)])


def plan_report(plan: Plan, database: str) -> str:
    """Return the whole page of a plan."""
    return _page(
        plan_sections(plan, database),
        name=plan.name,
        state="plan",
        about=about_plan(plan),
        read_at=datetime.now(UTC),
        titles=PLAN_TITLES,
    )


def _page(parts: list[str], **named: Any) -> str:
    from markupsafe import Markup  # noqa: PLC0415

    # All of this is ours or was escaped when its template was rendered.
    return page.rendered(
        "report.html", parts=[Markup(part) for part in parts], version=version("rlplan"), **page.contents(), **named
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
