"""The dashboard's pages, and the server that answers with them."""

import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from json import dumps
from typing import Any, NoReturn

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from budgets.errors import InputError, NotFoundError, RlplanError
from planner.store.engine import masked
from rlplan.exits import ExitCode
from rlplan.reading.sweeps import about_plan, listed_sweeps, plan_meant, unrun_plans
from rlplan.web import page
from rlplan.web.dashboard.access import HEADERS, LOCAL_NAMES, Access
from rlplan.web.dashboard.live import TITLES, LiveSweep, opened
from rlplan.web.report import PLAN_TITLES, about_sweep, plan_sections
from rlplan.wording.answers import plain
from rlplan.wording.command_lines import command


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
