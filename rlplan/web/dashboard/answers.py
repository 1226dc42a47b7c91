"""Answers to what is asked of the dashboard: which address shows what."""

import threading
import time
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from budgets.errors import InputError, NotFoundError
from planner.store.schema import RequestKind
from rlplan.web.dashboard.assets import assets, served
from rlplan.web.dashboard.control import Control
from rlplan.web.dashboard.listing import Listing, listing
from rlplan.web.dashboard.pages import ALL, sweep_page, written
from rlplan.web.dashboard.stream import Stream
from rlplan.web.dashboard.telling import trial_page

if TYPE_CHECKING:
    from rlplan.web.dashboard.hub import Hub
    from rlplan.web.dashboard.source import Source

MOST_DIGITS = 9  # of a sweep's number: what has more is none, and no integer of the database
KEPT_SECONDS = 1.0  # for which the list is not read again, however many look at it


class Answers:
    """One method for each kind of address; each waits for nothing that takes longer than a query."""

    def __init__(self, source: "Source", hub: "Hub", control: Control | None) -> None:
        self._source, self._hub, self._control = source, hub, control
        self._reading = threading.Lock()
        self._listed: tuple[float, int | None, Listing | None] = (0.0, None, None)

    async def front(self, request: Request) -> Response:
        """Show all sweeps."""
        return HTMLResponse(written("sweeps.html", listing=await self._listing(request)))

    async def rows(self, request: Request) -> Response:
        """Show the rows of the list alone, for the page that has it to renew them."""
        return HTMLResponse(written("rows.html", listing=await self._listing(request)))

    async def sweep(self, request: Request) -> Response:
        """Show a sweep."""
        snapshot = await self._hub.snapshot(request.path_params["sweep"])
        if self._control is None:
            return HTMLResponse(snapshot.page(lambda: sweep_page(snapshot, None)))
        session = self._control.session(request)
        answer = HTMLResponse(sweep_page(snapshot, self._control.seal(session)))
        self._control.remember(answer, session)
        return answer

    async def section(self, request: Request) -> Response:
        """Show one section of a sweep's page, with its version in a header."""
        name = request.path_params["section"]
        if name not in ALL:
            raise NotFoundError(f"there is no such section; there are {', '.join(ALL)}")
        part = await self._hub.part(request.path_params["sweep"], name)
        return HTMLResponse(part.html, headers={"x-version": part.version})

    async def trial(self, request: Request) -> Response:
        """Show one trial."""
        snapshot = await self._hub.snapshot(request.path_params["sweep"])

        def write() -> str:
            # Written while the store is lent too: what a damaged row makes of the page is said like other damage.
            with self._source.store() as store, store.read() as session:
                page = trial_page(session, snapshot.story, snapshot.beliefs, request.path_params["trial"])
                return written("trial.html", picture=snapshot.story.picture, page=page)

        return HTMLResponse(await run_sync(write, abandon_on_cancel=True))

    async def data(self, request: Request) -> Response:
        """Give all there is to tell of a sweep as JSON."""
        snapshot = await self._hub.snapshot(request.path_params["sweep"])

        def write() -> bytes:
            with self._source.store():
                return snapshot.data()

        return Response(await run_sync(write, abandon_on_cancel=True), media_type="application/json")

    async def events(self, request: Request) -> Response:
        """Tell what changes in a sweep, as it changes."""
        sweep = request.path_params["sweep"]
        return Stream(self._hub, sweep, await self._hub.listen(sweep))

    async def health(self, request: Request) -> Response:
        """Say whether the database can be read."""

        def look() -> None:
            with self._source.store() as store, store.read() as session:
                listing(session, before=0)

        await run_sync(look, abandon_on_cancel=True)
        return JSONResponse({"status": "ok"})

    async def static(self, request: Request) -> Response:
        """Give one of the files that pages refer to."""
        asset = (await run_sync(assets)).get(request.path_params["name"])
        if asset is None:
            raise NotFoundError("there is no such file")
        return served(asset, request)

    async def ask(self, request: Request) -> Response:
        """Ask something of a sweep's driver, and show the sweep again."""
        control, sweep, kind = self._control, request.path_params["sweep"], request.path_params["kind"]
        if control is None or kind not in list(RequestKind):
            raise NotFoundError(f"a sweep can be asked to {', '.join(RequestKind)}, and nothing else")
        await control.check(request)
        visitor = request.client.host if request.client else "unknown"
        await run_sync(control.ask, sweep, RequestKind(kind), visitor)
        return RedirectResponse(str(request.url_for("sweep", sweep=sweep).path), status_code=303)

    async def _listing(self, request: Request) -> Listing:
        given = request.query_params.get("before")
        if given is not None and not (given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS):
            raise InputError("before takes the number of a sweep, as the link to older sweeps has it")

        before = None if given is None else int(given)

        def read() -> Listing:
            at, last_before, last = self._listed
            known = last if last_before == before else None
            if known is not None and time.monotonic() - at < KEPT_SECONDS:
                return known
            if not self._reading.acquire(blocking=known is None) and known is not None:
                return known  # somebody reads it anew already
            try:
                with self._source.store() as store, store.read() as session:
                    known = listing(session, before)
                self._listed = (time.monotonic(), before, known)
            finally:
                self._reading.release()
            return known

        return await run_sync(read, abandon_on_cancel=True)
