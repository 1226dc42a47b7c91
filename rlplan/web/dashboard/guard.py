"""Stands before every page: whom it lets through, and what every answer carries."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from rlplan.web.dashboard.keys import Keys
from rlplan.web.dashboard.settings import Settings

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# plotly writes its own <style>; nothing else is lifted, and no script but our files runs.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer a form of our own would come from "null"
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
CARRIED = (*HEADERS, (b"cache-control", b"no-store"))  # by an answer that says nothing else
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")

Refuse = Callable[["Request", int, str], "Response"]


class Guard:
    """An application around another: host and token first, then the rest; the headers on everything."""

    def __init__(self, app: "ASGIApp", settings: Settings, keys: Keys, refuse: Refuse) -> None:
        self._app, self._settings, self._keys, self._refuse = app, settings, keys, refuse

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from starlette.requests import Request  # noqa: PLC0415

        send = with_headers(send)
        answer = self._answer(Request(scope))
        await (answer or self._app)(scope, receive, send)

    def _answer(self, request: "Request") -> "Response | None":
        """Return the answer to whom is not let through, None for who is."""
        return self._wrong_host(request) or self._stranger(request) or self._wrong_method(request)

    def _wrong_host(self, request: "Request") -> "Response | None":
        host = _host(request.headers.getlist("host"))
        if host is None:
            return self._refuse(request, 400, "The request does not say which host it is for.")
        if not self._settings.is_own(host):
            advice = "Open it under the address that it printed when it was started: it answers to no other name."
            return self._refuse(request, 421, advice)
        return None

    def _stranger(self, request: "Request") -> "Response | None":
        given = request.query_params.get("token")
        if not self._keys.are_needed:
            return None if given is None else _clean(request)
        if given is not None and self._keys.fits(given):
            return self._admitted(request)
        if given is None and self._is_known(request):
            return None
        advice = "Open it once with the address that it printed when it was started, which ends in ?token=…"
        return self._refuse(request, 401, f"This dashboard needs its token. {advice}")

    def _wrong_method(self, request: "Request") -> "Response | None":
        allowed = {"GET", "HEAD"} | ({"POST"} if self._settings.control else set())
        if request.method in allowed:
            return None
        answer = self._refuse(request, 405, "This dashboard only shows: it changes nothing.")
        answer.headers["allow"] = ", ".join(sorted(allowed))
        return answer

    def _is_known(self, request: "Request") -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._keys.fits(token.strip()):
            return True
        return self._keys.fits_cookie(request.cookies.get(cookie_name("key", self._settings), ""))

    def _admitted(self, request: "Request") -> "Response":
        answer = _clean(request)
        answer.set_cookie(cookie_name("key", self._settings), self._keys.cookie, httponly=True, samesite="strict")
        return answer


def cookie_name(what: str, settings: Settings) -> str:
    """Name a cookie; browsers share cookies between the ports of a host, and each dashboard needs its own."""
    return f"rlplan-{what}-{settings.port}"


def _host(given: list[str]) -> str | None:
    """Return the host without its port; None unless there is exactly one, and it reads as one."""
    found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    return found[1] if found else None


def _clean(request: "Request") -> "Response":
    """Send the visitor to the same address without the token, so that it stays out of histories."""
    from starlette.responses import RedirectResponse  # noqa: PLC0415

    query = [pair for pair in parse_qsl(request.url.query, keep_blank_values=True) if pair[0] != "token"]
    # Two slashes at the start would lead to another host.
    path = "/" + quote(request.scope["path"].lstrip("/\\"))
    return RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), status_code=303)


def with_headers(send: "Send") -> Callable[["Message"], Awaitable[None]]:
    """Return what sends an answer with the headers that every one carries."""

    async def sent(message: "Message") -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], *HEADERS]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return sent
