"""The dashboard as a web application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from budgets.errors import RlplanError
from planner.store.sweeps import sweep_named
from rlplan.reading.believing import beliefs
from rlplan.reading.story import Beliefs
from rlplan.web.dashboard.answers import Answers
from rlplan.web.dashboard.believer import Believer
from rlplan.web.dashboard.control import Control
from rlplan.web.dashboard.guard import Guard
from rlplan.web.dashboard.hub import Hub
from rlplan.web.dashboard.keys import Keys
from rlplan.web.dashboard.pages import part
from rlplan.web.dashboard.problems import problem, problem_of
from rlplan.web.dashboard.settings import Settings
from rlplan.web.dashboard.source import Source
from rlplan.web.dashboard.watched import Watched

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class Dashboard:
    """The application, and what it keeps while it runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.source = Source(settings.database)
        self.believer = Believer(self._believe)
        self.hub = Hub(self._watch)
        keys = Keys(settings.token)
        control = Control(settings, keys, self.source) if settings.control else None
        self._app: ASGIApp = Guard(self._routes(Answers(self.source, self.hub, control)), settings, keys, problem)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        await self._app(scope, receive, send)

    def _believe(self, sweep: str) -> Beliefs:
        with self.source.store() as store:
            return beliefs(store, sweep)

    def _watch(self, sweep: str) -> Watched:
        with self.source.store() as store, store.read() as session:
            sweep_named(session, sweep)
        return Watched(sweep, self.source, self.believer, part)

    def _routes(self, answers: Answers) -> FastAPI:
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=self._life, redirect_slashes=False)
        shown = {
            "/": answers.front,
            "/sweeps": answers.rows,
            "/sweeps/{sweep}": answers.sweep,
            "/sweeps/{sweep}/sections/{section}": answers.section,
            "/sweeps/{sweep}/trials/{trial}": answers.trial,
            "/sweeps/{sweep}/data.json": answers.data,
            "/sweeps/{sweep}/events": answers.events,
            "/healthz": answers.health,
            "/static/{name}": answers.static,
        }
        for path, answer in shown.items():
            app.add_api_route(path, answer, methods=["GET", "HEAD"], response_model=None)
        if self.settings.control:
            app.add_api_route("/sweeps/{sweep}/{kind}", answers.ask, methods=["POST"], response_model=None)
        app.add_exception_handler(RlplanError, _said)
        app.add_exception_handler(HTTPException, _not_served)
        app.add_exception_handler(Exception, _our_bug)
        return app

    @asynccontextmanager
    async def _life(self, _: FastAPI) -> AsyncIterator[None]:
        yield
        self.hub.close()
        self.believer.close()
        self.source.close()


async def _said(request: Request, error: Exception) -> Response:
    assert isinstance(error, RlplanError)
    return problem_of(request, error)


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow", "")
    only = "only shows: it changes nothing" if "GET" in allowed else "is that of a button, and shows nothing"
    words = {404: "There is no such page.", 405: f"This address {only}."}
    answer = problem(request, error.status_code, words.get(error.status_code, str(error.detail)))
    if allowed:
        answer.headers["allow"] = allowed
    return answer


async def _our_bug(request: Request, error: Exception) -> Response:
    kind = type(error).__name__
    return problem(request, 500, f"This is an error of rlplan's ({kind}); what happened stands in its terminal.")
