"""The dashboard as a web application: which address shows what."""

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from budgets.errors import InputError, NotFoundError, RlplanError, StoreError
from planner.store.sweeps import sweep_named
from rlplan.reading.believing import beliefs
from rlplan.reading.plans import plan_meant, unrun_plans
from rlplan.reading.story import Beliefs
from rlplan.web.dashboard import pages
from rlplan.web.dashboard.assets import assets, served
from rlplan.web.dashboard.live import LiveSweeps
from rlplan.web.dashboard.pages import Listing, problem, written
from rlplan.web.dashboard.security import Guard
from rlplan.web.dashboard.settings import Settings
from rlplan.web.dashboard.snapshots import ALL, FRONT, Snapshot, SweepReader, part_of, trouble_message
from rlplan.web.dashboard.source import Source
from rlplan.web.plan import plan_sections

MOST_DIGITS = 9  # of a sweep's number: what has more is none, and no integer of the database
FRONT_PARTS = 2  # of a plan, on the first page where nothing has run yet
CACHE_SECONDS = 1.0  # for which the list is not read again, however many look at it
CODES: tuple[tuple[type[RlplanError], int], ...] = (
    (NotFoundError, 404),
    (StoreError, 503),
    (InputError, 400),
)


class Dashboard:
    """The application, and what it keeps while it runs; no answer waits for longer than a query."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.source = Source(settings.database)
        self.live = LiveSweeps(self._reader)
        self._app: ASGIApp = Guard(self._routes(), settings)
        self._reading = threading.Lock()
        self._listed: tuple[float, int | None, Listing | None] = (0.0, None, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._app(scope, receive, send)

    def _believe(self, sweep: str) -> Beliefs:
        with self.source.store() as store:
            return beliefs(store, sweep)

    def _reader(self, sweep: str) -> SweepReader:
        with self.source.store() as store, store.read() as session:
            sweep_named(session, sweep)
        return SweepReader(sweep, self.source, self._believe, pages.part)

    def _routes(self) -> FastAPI:
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=self._life, redirect_slashes=False)
        shown = {
            "/": self.front,
            "/sweeps": self.rows,
            "/plans/{plan}": self.plan,
            "/sweeps/{sweep}": self.sweep,
            "/sweeps/{sweep}/sections/{section}": self.section,
            "/sweeps/{sweep}/trials/{trial}": self.trial,
            "/sweeps/{sweep}/data.json": self.data,
            "/sweeps/{sweep}/state": self.state,
            "/healthz": self.health,
            "/static/{name}": self.static,
        }
        for path, answer in shown.items():
            app.add_api_route(path, answer, methods=["GET", "HEAD"], response_model=None)
        app.add_exception_handler(RlplanError, _on_error)
        app.add_exception_handler(HTTPException, _not_served)
        app.add_exception_handler(Exception, _our_bug)
        return app

    @asynccontextmanager
    async def _life(self, _: FastAPI) -> AsyncIterator[None]:
        yield
        self.live.close()
        self.source.close()

    def front(self, request: Request) -> Response:
        """Show the sweep that matters now, the plans that wait, and all sweeps."""
        listed = self._listing(request)
        if before := request.query_params.get("before"):
            return HTMLResponse(pages.front_page(listed, (), None, self.settings.database, before))
        with self.source.store() as store, store.read() as session:
            plans = unrun_plans(session)
        return HTMLResponse(pages.front_page(listed, plans, self._featured(listed), self.settings.database))

    def _featured(self, listed: Listing) -> Snapshot | RlplanError | str | None:
        if listed.featured is None:
            return self._plan(None, FRONT_PARTS)
        try:
            return self.live.of(listed.featured).snapshot
        except RlplanError as error:
            return error

    def rows(self, request: Request) -> Response:
        """Show the rows of the list alone, for the page that has it to renew them, or have it begin anew."""
        listed = self._listing(request)
        answer = HTMLResponse(written("rows.html", listing=listed, before=request.query_params.get("before")))
        shown = request.query_params.get("shown")
        if shown is not None and shown != (listed.featured or ""):
            answer.headers["hx-refresh"] = "true"
        return answer

    def plan(self, request: Request) -> Response:
        """Show a plan: its split, its priced grid, and what other budgets would choose."""
        page = self._plan(request.path_params["plan"])
        if page is None:
            raise NotFoundError("there is no such plan: the first page lists those that wait to be run")
        return HTMLResponse(page)

    def _plan(self, name: str | None, parts: int | None = None) -> str | None:
        """Write the page of a plan, or its first parts alone; None when there is none."""
        with self.source.store() as store, store.read() as session:
            plan = plan_meant(session, name)
            if plan is None:
                return None
            if parts is None:
                return pages.plan_page(plan, self.settings.database)
            return "".join(plan_sections(plan, self.settings.database)[:parts])

    def sweep(self, request: Request) -> Response:
        """Show a sweep."""
        snapshot = self._snapshot(request)
        return HTMLResponse(snapshot.kept("page", lambda: pages.sweep_page(snapshot)))

    def section(self, request: Request) -> Response:
        """Show one section of a sweep's page; who has it already is told so."""
        name = request.path_params["section"]
        if name not in (FRONT, *ALL):
            raise NotFoundError(f"there is no such section; there are {', '.join(ALL)}")
        shown = self._snapshot(request).part(name)
        return tagged(request, shown.html, shown.version, "text/html")

    def trial(self, request: Request) -> Response:
        """Show one trial."""
        snapshot = self._snapshot(request)
        # Written while the store is lent too: what a damaged row makes of the page is said like other damage.
        with self.source.store() as store, store.read() as session:
            page = pages.trial_page(session, snapshot.story, snapshot.beliefs, request.path_params["trial"])
            return HTMLResponse(written("trial.html", picture=snapshot.story.picture, page=page))

    def data(self, request: Request) -> Response:
        """Give what `rlplan status` has of a sweep as JSON."""
        snapshot = self._snapshot(request)
        with self.source.store():
            return Response(snapshot.kept("data", snapshot.data), media_type="application/json")

    def state(self, request: Request) -> Response:
        """Say which sections of a sweep are of which version: what its page asks again and again."""
        sweep = self.live.of(request.path_params["sweep"])
        text = sweep.snapshot.message() if sweep.trouble is None else trouble_message(str(sweep.trouble))
        return tagged(request, text, part_of(text).version, "application/json")

    def health(self, _: Request) -> Response:
        """Say whether the database can be read."""
        with self.source.store() as store, store.read() as session:
            pages.listing(session, before=0)
        return JSONResponse({"status": "ok"})

    def static(self, request: Request) -> Response:
        """Give one of the files that pages refer to."""
        asset = assets().get(request.path_params["name"])
        if asset is None:
            raise NotFoundError("there is no such file")
        return served(asset, request)

    def _snapshot(self, request: Request) -> Snapshot:
        return self.live.of(request.path_params["sweep"]).snapshot

    def _listing(self, request: Request) -> Listing:
        given = request.query_params.get("before")
        if given is not None and not (given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS):
            raise InputError("before takes the number of a sweep, as the link to older sweeps has it")
        before = None if given is None else int(given)
        with self._reading:
            at, last_before, listed = self._listed
            if listed is None or last_before != before or time.monotonic() - at > CACHE_SECONDS:
                with self.source.store() as store, store.read() as session:
                    listed = pages.listing(session, before)
                self._listed = (time.monotonic(), before, listed)
            return listed


def tagged(request: Request, text: str, version: str, kind: str) -> Response:
    """Answer with a text, or that it is still the one that the visitor has."""
    tag = f'"{version}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return Response(text, media_type=kind, headers={"etag": tag})


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RlplanError)
    return problem(request, next((code for kind, code in CODES if isinstance(error, kind)), 500), str(error))


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow", "")
    words = {404: "There is no such page.", 405: "This address only shows: it changes nothing."}
    answer = problem(request, error.status_code, words.get(error.status_code, str(error.detail)))
    if allowed:
        answer.headers["allow"] = allowed
    return answer


async def _our_bug(request: Request, error: Exception) -> Response:
    kind = type(error).__name__
    return problem(request, 500, f"This is an error of rlplan's ({kind}); what happened stands in its terminal.")
