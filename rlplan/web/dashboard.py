"""The dashboard: who may see it, its pages as they go on, and the server that answers with them."""

import hashlib
import logging
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from json import dumps
from threading import Lock
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from markupsafe import Markup
from starlette.exceptions import HTTPException

from budgets.errors import InputError, NotFoundError, RlplanError, StoreError
from planner.store import Store, open_store
from planner.store.engine import masked
from planner.store.schema import SweepStatus
from planner.store.sweeps import sweep_named
from rlplan.exits import ExitCode
from rlplan.reading.beliefs import beliefs, mark
from rlplan.reading.story import Beliefs, Story, story
from rlplan.reading.sweep_words import time_of
from rlplan.reading.sweeps import about_plan, listed_sweeps, plan_meant, unrun_plans
from rlplan.web import page
from rlplan.web.report import PLAN_TITLES, about_sweep, plan_sections
from rlplan.wording.answers import plain
from rlplan.wording.command_lines import command

SHORTEST_TOKEN = 16
NEW_TOKEN = "auto"
NEEDS_TOKEN = "Open it once with the address that it printed when it was started, which ends in ?token=…\n"
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
ALL_INTERFACES = ("0.0.0.0", "::")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]+)(?::\d{1,5})?", re.IGNORECASE)
NUMBER = re.compile(r"\[.*\]|\d+(\.\d+){3}")
HEADERS = {
    # plotly writes its own <style>; nothing else is lifted, and no script but our files runs.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Where a dashboard listens, and the token that opens it."""

    host: str
    port: int
    token: str

    @property
    def name(self) -> str:
        """The host as addresses have it; on all interfaces this machine's name."""
        if self.host in ALL_INTERFACES:
            return socket.gethostname()
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"http://{self.name}:{self.port}/?token={quote(self.token, safe='')}"

    @property
    def cookie(self) -> tuple[str, str]:
        """What a visitor keeps: a name for each dashboard, since browsers share cookies between ports, and a value."""
        return f"rlplan-{self.port}", hashlib.sha256(self.token.encode()).hexdigest()

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that gets no page, in a line of text; None for one that does."""
        origin, token = request.headers.get("origin"), request.query_params.get("token")
        if not self._is_own_host(request.headers.getlist("host")):
            return PlainTextResponse("Open it under the address that it printed: it answers to no other name.\n", 421)
        if origin is not None and urlsplit(origin).netloc != request.headers["host"]:
            return PlainTextResponse("It answers to no page of another origin.\n", 403)
        if token is not None and same(token, self.token):
            return self._admission(request)
        if token is not None or not self._knows_token(request):
            return PlainTextResponse(NEEDS_TOKEN, 401, {"www-authenticate": "Bearer"})
        if request.method != "GET":
            return PlainTextResponse("It only shows: it changes nothing.\n", 405, {"allow": "GET"})
        return None

    def _is_own_host(self, hosts: list[str]) -> bool:
        """Whether a request names this dashboard as its one host.

        A page elsewhere may have its own name resolve to this machine, and read what is served here under it. Only
        numbers are safe from that, so on all interfaces any address will do, but of names only this machine's.
        """
        match = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        name = match[1].lower() if match else ""
        is_safe = self.host in ALL_INTERFACES and NUMBER.fullmatch(name) is not None
        return is_safe or name in (*LOCAL_NAMES, self.name.lower())

    def _knows_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer" and same(token.strip(), self.token)
        return is_bearer or same(request.cookies.get(self.cookie[0], ""), self.cookie[1])

    def _admission(self, request: Request) -> Response:
        """Give the visitor the cookie, and lead to the same address without the token, which histories would keep."""
        query = request.url.remove_query_params("token").query
        # Two slashes at the start would lead to another host.
        path = "/" + quote(request.scope["path"].lstrip("/\\"))
        response = RedirectResponse(f"{path}?{query}" if query else path, 303)
        response.set_cookie(*self.cookie, httponly=True, samesite="strict")
        return response


def checked(host: str, port: int, token: str) -> Access:
    """Return the access, with a new token for "auto"; InputError for a token that cannot work."""
    if token == NEW_TOKEN:
        token = secrets.token_urlsafe(24)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"the token takes {SHORTEST_TOKEN} ASCII characters or more, and no space: --token {NEW_TOKEN} makes one"
        )
    return Access(host.strip("[]"), port, token)


def same(text: str, secret: str) -> bool:
    """Whether a text is the secret, in a time that does not tell where they differ."""
    return secrets.compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode())


TITLES = {"now": "Now", **page.TITLES}
LOCK_SECONDS = 2.0  # a visitor should sooner hear of a lock than wait for it
FRESH_SECONDS = 0.5  # before rows are looked at again, however many visitors there are
TICK_SECONDS = 10.0  # of a running sweep: how long its driver has been silent changes without a row
# A fit of a large sweep takes seconds: it is not to take more than a fifth of a core away from what shows it.
SHORTEST_PAUSE_SECONDS, PAUSE_PER_SECOND_OF_WORK = 5.0, 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """What was believed of a sweep at a moment, or why that could not be worked out."""

    rows: str  # the mark of the rows it rests on
    beliefs: Beliefs | None
    at: datetime
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A sweep and the parts of its page as HTML; the key is another when they would be."""

    key: tuple[str, Fit | None, float]
    story: Story
    parts: Mapping[str, str]


class LiveSweep:
    """A sweep that is looked at: it is read once for all visitors."""

    def __init__(self, database: str, name: str, fitters: Executor) -> None:
        self._database, self._name, self._fitters = database, name, fitters
        self._lock = Lock()
        self._newest: Snapshot | RlplanError | None = None
        self._fit: Fit | None = None
        self._fitting: Future[None] | None = None
        self._read_due = self._fit_due = 0.0

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot; RlplanError when the sweep cannot be read.

        One visitor at a time waits until it is read again; the others get what there is.
        """
        began = time.monotonic()
        if began >= self._read_due and self._lock.acquire(blocking=self._newest is None):
            try:
                with opened(self._database) as store:
                    self._newest = self._renewed(store)
            except RlplanError as error:
                self._newest = error
            finally:
                now = time.monotonic()
                self._read_due = now + max(FRESH_SECONDS, now - began)  # what takes long to read is read less often
                self._lock.release()
        if not isinstance(self._newest, Snapshot):
            raise self._newest or StoreError("the sweep could not be read")
        return self._newest

    def _renewed(self, store: Store) -> Snapshot:
        """Return the snapshot of this moment, the one that there is where nothing has changed; a fit may begin."""
        with store.read() as session:
            row = sweep_named(session, self._name)
            rows, is_running = mark(session, row.id), row.status is SweepStatus.RUNNING
        now, fit = time.monotonic(), self._fit
        is_idle = now >= self._fit_due and (self._fitting is None or self._fitting.done())
        if is_idle and (fit is None or fit.rows != rows):
            self._fitting = self._fitters.submit(self._fit_curves, rows)
        key = rows, fit, now // TICK_SECONDS if is_running else 0.0
        if isinstance(self._newest, Snapshot) and self._newest.key == key:
            return self._newest
        told = story(store, self._name)
        return Snapshot(key, told, {name: section(name, told, fit) for name in TITLES})

    def _fit_curves(self, rows: str) -> None:
        """Work out what is believed on the newest rows; what was believed before stays where that fails."""
        began = time.monotonic()
        try:
            with opened(self._database) as store:
                self._fit = Fit(rows, beliefs(store, self._name), datetime.now(UTC))
        except Exception as error:  # whatever a damaged row makes of a fit: the page is to say so
            problem = str(error) if isinstance(error, RlplanError) else f"It failed ({type(error).__name__})."
            self._fit = Fit(rows, self._fit.beliefs if self._fit else None, datetime.now(UTC), problem)
        now = time.monotonic()
        self._fit_due = now + max(SHORTEST_PAUSE_SECONDS, PAUSE_PER_SECOND_OF_WORK * (now - began))


def opened(database: str) -> Store:
    """Open the database for one look: it may vanish, be replaced and come back."""
    return open_store(database, read_only=True, lock_timeout_seconds=LOCK_SECONDS)


def section(name: str, told: Story, fit: Fit | None) -> str:
    """Render a section; one that cannot be rendered says so, and the others are there."""
    try:
        if name in page.SECTIONS:
            return page.section(name, told, fit.beliefs if fit else None)
        summary = Markup(page.summary(told))
        return page.rendered("dashboard/now.html", story=told, fit=fit, time=time_of(told.picture), summary=summary)
    except Exception as error:  # a damaged row may make any part of it fail, in ways that nobody has listed
        return page.rendered("dashboard/broken.html", title=TITLES[name], kind=type(error).__name__)


def pages(database: str) -> APIRouter:
    """Return what the dashboard answers to each address."""
    router, fitters = APIRouter(), ThreadPoolExecutor(1, "fits")
    live_sweep = lru_cache(16)(lambda name: LiveSweep(database, name, fitters))  # so many are kept in memory

    @router.get("/")
    def index(request: Request) -> Response:
        with opened(database) as store, store.read() as session:
            plans = [(plan, command("sweep", plan.name, database)) for plan in unrun_plans(session)]
            sweeps = listed_sweeps(session, datetime.now(UTC))
            html = page.rendered("dashboard/index.html", sweeps=sweeps, plans=plans)
        return page_of(request, "Sweeps and plans", {"index": html}, live=True)

    @router.get("/sweeps/{name}")
    def sweep(request: Request, name: str) -> Response:
        snapshot = live_sweep(name).snapshot()
        about = about_sweep(snapshot.story.picture)
        return page_of(request, name, snapshot.parts, live=True, about=about, titles=TITLES)

    @router.get("/sweeps/{name}/data.json")
    def data(name: str) -> Response:
        document = plain(live_sweep(name).snapshot().story.picture)
        return Response(dumps(document, allow_nan=False, separators=(",", ":")), media_type="application/json")

    @router.get("/plans/{name}")
    def plan(request: Request, name: str) -> Response:
        with opened(database) as store, store.read() as session:
            row = plan_meant(session, name)
            if row is None:  # the name is a sweep's
                raise NotFoundError("there is no such plan: the first page lists those that wait to be run")
            parts = dict(zip(PLAN_TITLES, plan_sections(row, database), strict=True))
            return page_of(request, name, parts, about=about_plan(row), titles=PLAN_TITLES)

    return router


def page_of(request: Request, title: str, parts: Mapping[str, str], code: int = 200, **shown: Any) -> Response:
    """Answer with a page, or with 304 to a visitor who has it.

    A page that is live asks for itself again and again, and replaces the parts that have changed.
    """
    context = {"live": False, "about": "", "titles": {}, "title": title, "parts": parts} | shown
    versions = {name: digest(html) for name, html in parts.items()}
    html = page.rendered("dashboard/page.html", versions=versions, **context)
    tag = f'"{digest(html)}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return HTMLResponse(html, code, {"etag": tag})


def digest(text: str) -> str:
    """Return a short text that is another whenever the text is."""
    return sha256(text.encode()).hexdigest()[:16]


async def trouble(request: Request, error: Exception) -> Response:
    """Answer with what is wrong: as a page to who opens one, in a line to who does not."""
    if isinstance(error, RlplanError):
        code, text = 404 if isinstance(error, NotFoundError) else 503, str(error)
    elif isinstance(error, HTTPException):
        code, text = error.status_code, "There is no such page."
    else:
        code, text = 500, f"This is an error of rlplan's ({type(error).__name__}); its terminal has the rest."
    if "text/html" not in request.headers.get("accept", "") or "hx-request" in request.headers:
        return PlainTextResponse(f"{text}\n", code)
    parts = {"problem": page.rendered("dashboard/problem.html", text=text)}
    return page_of(request, HTTPStatus(code).phrase, parts, code, live=not isinstance(error, HTTPException))


def dashboard(database: str, access: Access) -> FastAPI:
    """Return the application."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.include_router(pages(database))
    app.mount("/static", StaticFiles(packages=[("rlplan.web", "static")]))
    app.add_exception_handler(RlplanError, trouble)
    app.add_exception_handler(HTTPException, trouble)

    @app.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            response = access.refusal(request) or await answer(request)
        except Exception as error:
            logging.getLogger("uvicorn.error").exception("an error of rlplan's")
            response = await trouble(request, error)
        response.headers.update(HEADERS)
        return response

    return app


def serve(database: str, access: Access) -> NoReturn:
    """Serve the dashboard until Ctrl-C, and end the process."""
    with opened(database):
        pass  # what is wrong with the database is said at once, not on a page
    listener = listening(access)
    config = uvicorn.Config(
        dashboard(database, access),
        http="h11",
        ws="none",
        access_log=False,  # addresses may hold the token
        log_level="error",
        server_header=False,
        proxy_headers=False,  # a header that anybody can send says nothing about where a request comes from
        timeout_graceful_shutdown=1,
        limit_concurrency=1000,
    )
    sys.stderr.write(f"rlplan dashboard of {masked(database)}: {access.url}\n")
    if access.name not in LOCAL_NAMES:
        sys.stderr.write("Whoever has this address can look; it is not encrypted on its way: see ssh -L for that.\n")
    sys.stderr.write("Ctrl-C ends it; the sweep goes on.\n")
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    os._exit(ExitCode.DONE)  # a fit may be under way, which changes nothing: nobody is to wait for it


def listening(access: Access) -> socket.socket:
    """Take the port; InputError when it cannot be had."""
    family = socket.AF_INET6 if ":" in access.host else socket.AF_INET
    try:
        return socket.create_server((access.host, access.port), family=family, backlog=socket.SOMAXCONN)
    except OSError as error:
        raise InputError(
            f"port {access.port} of {access.host} cannot be listened on ({error.strerror}): give another one, such as "
            f"--port {access.port + 1}, or leave --host out"
        ) from error
