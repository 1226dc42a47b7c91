"""Writes the dashboard's pages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from sqlalchemy.orm import Session
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from budgets.errors import NotFoundError, RlplanError
from planner.store.schema import Plan
from planner.view import FINAL_POLICY
from rlplan.charts.chart import Chart
from rlplan.charts.curves import curve_panels
from rlplan.reading.plans import about_plan
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import SegmentRow, TrialRow
from rlplan.reading.sweep_words import tally, time_of
from rlplan.reading.sweeps import ListedSweep, listed_sweeps
from rlplan.reading.trials import Move, moves_of
from rlplan.web.dashboard.assets import address
from rlplan.web.dashboard.snapshots import ALL, FRONT, LARGE, NOW, Fitted, Snapshot
from rlplan.web.page import TITLES, encodable, environment, section
from rlplan.web.plan import TITLES as PLAN_TITLES
from rlplan.web.plan import plan_sections
from rlplan.web.sections import answer_section, ranking_section
from rlplan.wording.commands import command
from rlplan.wording.numbers import plural

if TYPE_CHECKING:
    from jinja2 import Environment

RETRY_SECONDS = 3
TRIAL_CHART_HEIGHT = 420
MOST_ROWS = 50  # of the list, on one page
FRONT_PANELS, FRONT_ROWS = 3, 5  # on the first page


@cache
def _environment() -> "Environment":
    made = environment("rlplan.web.dashboard")
    made.globals["address"] = address
    return made


def written(template: str, **context: Any) -> str:
    """Render a template of the dashboard; every value that is no markup yet is escaped."""
    return encodable(_environment().get_template(template).render(context))


def part(name: str, story: Story, fitted: Fitted | None) -> str:
    """Render a section; one that cannot be rendered says so, and the others are there."""
    try:
        if name == NOW:
            return written("now.html", fitted=fitted, **_state(story))
        beliefs = fitted.beliefs if fitted else None
        return _front(story, beliefs) if name == FRONT else section(name, story, beliefs)
    except Exception as error:  # a damaged row may make any part of it fail, in ways that nobody has listed
        return written("broken.html", title=TITLES.get(name, "Now"), kind=type(error).__name__)


def _state(story: Story) -> dict[str, Any]:
    """Return how a sweep stands, and where its money is."""
    picture = story.picture
    money = picture.money
    whole = max(money.pilot_gpu_hours, money.spent + money.reserved_gpu_hours) or 1.0
    return {
        "picture": picture,
        "state": picture.state,
        "time": time_of(picture),
        "tally": tally(picture.trials),
        "trials": plural(len(picture.trials), "trial"),
        "purpose": "the final run" if picture.policy == FINAL_POLICY else "pilots",
        "spent_share": 100 * money.spent / whole,
        "reserved_share": 100 * money.reserved_gpu_hours / whole,
    }


def _front(story: Story, beliefs: Beliefs | None) -> str:
    """Write what one comes for: how the sweep stands, what it recommends so far, its best curves and ranks."""
    ranking = ranking_section(story, beliefs)
    shown = [line for line in ranking["lines"][:FRONT_ROWS] if line["rank"] is not None]
    return written(
        "front.html",
        **_state(story),
        **answer_section(story, beliefs),
        panels=curve_panels(story, beliefs, FRONT_PANELS).charts,
        lines=shown,
        hidden=len(ranking["lines"]) - len(shown),
        low=ranking["low"],
        high=ranking["high"],
        with_axes=ranking["with_axes"],
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of the list, the newest first."""

    sweeps: tuple[ListedSweep, ...]
    older_than: int | None  # id from which the next page goes on; None when this is the last

    @property
    def featured(self) -> str | None:
        """The sweep that the first page shows: the newest that is under way, or else the newest."""
        going = (each.sweep for each in self.sweeps if each.state in ("running", "paused"))
        return next(going, self.sweeps[0].sweep if self.sweeps else None)


def listing(session: Session, before: int | None = None, *, now: datetime | None = None) -> Listing:
    """Read a page of the list: the newest sweeps, or those before an id."""
    found = listed_sweeps(session, now or datetime.now(UTC), before=before, most=MOST_ROWS + 1)
    shown = tuple(found[:MOST_ROWS])
    return Listing(shown, shown[-1].id if len(found) > MOST_ROWS else None)


def front_page(
    listing: Listing,
    plans: Sequence[Plan],
    featured: Snapshot | RlplanError | str | None,
    database: str,
    before: str | None = None,
) -> str:
    """Write the first page: the sweep that matters now, or why it cannot be shown, plans to run, and all sweeps.

    Where nothing has run yet, the newest plan is what one comes for.
    """
    trouble = str(featured) if isinstance(featured, RlplanError) else None
    snapshot = featured if isinstance(featured, Snapshot) else None
    front = snapshot.parts[FRONT] if snapshot else None
    return written(
        "sweeps.html",
        listing=listing,
        before=before,
        plans=[(each, command("sweep", each.name, database)) for each in plans],
        trouble=trouble,
        story=snapshot.story if snapshot else None,
        version=front.version if front else "",
        front=Markup(front.html) if front else None,
        plan_part=Markup(featured) if isinstance(featured, str) else None,
    )


def plan_page(plan: Plan, database: str) -> str:
    """Write the page of a plan, which has the sections of its report."""
    parts = [Markup(part) for part in plan_sections(plan, database)]
    return written("plan.html", plan=plan, about=about_plan(plan), parts=parts, titles=PLAN_TITLES)


def sweep_page(snapshot: Snapshot) -> str:
    """Write the page of a sweep."""
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
    return written("sweep.html", picture=picture, story=snapshot.story, sections=sections)


@dataclass(frozen=True, slots=True)
class TrialPage:
    """What the page of a trial shows."""

    trial: TrialRow
    chart: Chart | None  # None while it has no score
    segments: tuple[SegmentRow, ...]
    moves: tuple[Move, ...]


def trial_page(session: Session, story: Story, beliefs: Beliefs | None, given: str) -> TrialPage:
    """Gather what the page of a trial shows; it is given by its id or by its name."""
    trial = _found(story, given)
    segments = tuple(each for each in story.segments if each.trial_id == trial.id)
    return TrialPage(trial, _chart(story, beliefs, trial), segments, moves_of(session, trial.id))


def _found(story: Story, given: str) -> TrialRow:
    for trial in story.picture.trials:
        if given in (str(trial.id), trial.name):
            return trial
    raise NotFoundError(f"{story.picture.sweep} has no such trial. Its trials are on its page")


def _chart(story: Story, beliefs: Beliefs | None, trial: TrialRow) -> Chart | None:
    """Draw the panel of a sweep that has this trial alone."""
    if not trial.scores:
        return None
    alone = replace(story, picture=replace(story.picture, trials=(trial,)))
    believed = beliefs and replace(
        beliefs, bands={trial.id: beliefs.bands[trial.id]} if trial.id in beliefs.bands else {}
    )
    panels = curve_panels(alone, believed).charts
    return replace(panels[0][1], height=TRIAL_CHART_HEIGHT) if panels else None


def problem(request: Request, code: int, text: str) -> Response:
    """Answer with a problem: as a page to who wants one, in a line to who does not."""
    wants_page = "text/html" in request.headers.get("accept", "") and "hx-request" not in request.headers
    if code == 401 or not wants_page:
        # A stranger is told this and nothing else, not even what else there is.
        answer: Response = PlainTextResponse(f"{text}\n", status_code=code)
    else:
        again = code == 503
        page = written("problem.html", title=HTTPStatus(code).phrase, text=text, again=again, seconds=RETRY_SECONDS)
        answer = HTMLResponse(page, status_code=code)
    if code == 503:
        answer.headers["retry-after"] = str(RETRY_SECONDS)
    if code == 401:
        answer.headers["www-authenticate"] = "Bearer"
    return answer
