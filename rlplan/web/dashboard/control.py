"""Pause, resume and stop from the page: requests that the sweep's driver reads; the only place that writes."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from budgets.errors import InputError
from planner.store import open_store
from planner.store.driving import request as ask
from planner.store.schema import RequestKind
from planner.store.sweeps import sweep_named
from rlplan.web.dashboard.guard import cookie_name
from rlplan.web.dashboard.keys import Keys, is_session, new_session
from rlplan.web.dashboard.settings import Settings
from rlplan.web.dashboard.source import LOCK_SECONDS, Source
from runner.sweep.drivers import is_dead

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MOST_BYTES, MOST_FIELDS = 2000, 10  # of a form with one seal in it


class ForgedError(InputError):
    """A form did not come from a page of this dashboard."""


class Control:
    """Takes requests from the page, once it is sure that the visitor made them there."""

    def __init__(self, settings: Settings, keys: Keys, source: Source) -> None:
        self._settings, self._keys, self._source = settings, keys, source
        self._cookie = cookie_name("session", settings)

    def session(self, request: "Request") -> str:
        """Return the name of the visitor's session, a new one at the first visit."""
        given = request.cookies.get(self._cookie, "")
        return given if is_session(given) else new_session()

    def seal(self, session: str) -> str:
        """Return what the session's forms bring back."""
        return self._keys.seal(session)

    def remember(self, answer: "Response", session: str) -> None:
        """Have the browser keep its session."""
        answer.set_cookie(self._cookie, session, httponly=True, samesite="strict")

    async def check(self, request: "Request") -> None:
        """Raise ForgedError unless the form was shown to this visitor, by this dashboard."""
        if not _is_from_here(request):
            raise ForgedError("the form came from another site, so nothing was asked of the sweep")
        form = await _form(request)
        if not self._keys.sealed(request.cookies.get(self._cookie, ""), form.get("seal", "")):
            raise ForgedError("the form is from an older page: go back to the sweep, reload it and press again")

    def ask(self, sweep: str, kind: RequestKind, visitor: str) -> None:
        """Write a request for the sweep's driver; the database is open for writing only that long."""
        with self._source.store() as store, store.read() as session:
            name = sweep_named(session, sweep).name  # opened for writing, a database that is gone would be made anew
        with open_store(self._settings.database, lock_timeout_seconds=LOCK_SECONDS) as store, store.write() as session:
            dead = is_dead(sweep_named(session, name))
            ask(session, name, kind, f"the dashboard ({visitor})", datetime.now(UTC), driver_is_dead=dead)


def _is_from_here(request: "Request") -> bool:
    """Whether the browser says that the form was on a page of this host; one that says nothing is not believed."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") == "same-origin"
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc == request.headers.get("host")


async def _form(request: "Request") -> Mapping[str, str]:
    from starlette.requests import ClientDisconnect  # noqa: PLC0415

    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise ForgedError("the form is larger than any of this dashboard's")
    except ClientDisconnect as error:
        raise ForgedError("the form did not come whole") from error
    try:
        fields = parse_qs(body.decode("ascii", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise ForgedError("the form has more fields than any of this dashboard's") from error
    return {name: values[0] for name, values in fields.items()}
