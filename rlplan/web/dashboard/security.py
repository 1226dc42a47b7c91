"""Stands before every page: whom it lets through, and what every answer carries."""

import re
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, quote, urlencode

from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlplan.web.dashboard.pages import problem
from rlplan.web.dashboard.settings import Settings

# plotly writes its own <style>; nothing else is lifted, and no script but our files runs.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::\d{1,5})?")
ADDRESS = re.compile(rb"\[.*\]|\d+(\.\d+){3}")
ADMITTED = "admitted"  # in a visitor's session


class Guard:
    """An application around another: host and token first, then the rest; the headers on everything."""

    def __init__(self, pages: ASGIApp, settings: Settings) -> None:
        self._pages, self._settings = pages, settings
        # Without a token nothing but this process can tell its sessions; they are void when it ends.
        key = settings.token or secrets.token_urlsafe(32)
        self._visits = SessionMiddleware(
            self._visit, key, cookie_name(settings), max_age=None, same_site="strict", https_only=False
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self._pages(scope, receive, send)
        elif self._is_own(scope):
            await self._visits(scope, receive, with_headers(send))
        else:
            advice = "Open it under the address that it printed when it was started: it answers to no other name."
            await problem(Request(scope), 421, advice)(scope, receive, with_headers(send))

    def _is_own(self, scope: Scope) -> bool:
        """Whether the request is for this dashboard, by the one host that it names.

        A page elsewhere may have its own name resolve to this machine, and read what is served here under it. Only
        numbers are safe from that, so on all interfaces any address will do, but of names only this machine's.
        """
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        named = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if named is None:
            return False
        own = named[1].decode("latin-1").casefold() in map(str.casefold, self._settings.names)
        return own or (self._settings.on_all_interfaces and ADDRESS.fullmatch(named[1]) is not None)

    async def _visit(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        answer = self._stranger(request) or self._wrong_method(request)
        await (answer or self._pages)(scope, receive, send)

    def _stranger(self, request: Request) -> Response | None:
        """Return the answer to whom is not let through, None for who is."""
        given = request.query_params.get("token")
        if self._settings.token is None:
            return None if given is None else _without_token(request)
        if given is not None and same(given, self._settings.token):
            request.session[ADMITTED] = True
            return _without_token(request)
        if given is None and (self._has_token(request) or request.session.get(ADMITTED)):
            return None
        advice = "Open it once with the address that it printed when it was started, which ends in ?token=…"
        return problem(request, 401, f"This dashboard needs its token. {advice}")

    def _has_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and same(token.strip(), self._settings.token or "")

    def _wrong_method(self, request: Request) -> Response | None:
        if request.method in ("GET", "HEAD"):
            return None
        answer = problem(request, 405, "This dashboard only shows: it changes nothing.")
        answer.headers["allow"] = "GET, HEAD"
        return answer


def cookie_name(settings: Settings) -> str:
    """Name the cookie; browsers share cookies between the ports of a host, and each dashboard needs its own."""
    return f"rlplan-{settings.port}"


def same(given: str, right: str) -> bool:
    """Whether both are the same, in a time that does not tell where they differ."""
    return bool(right) and secrets.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())


def _without_token(request: Request) -> Response:
    """Send the visitor to the same address without the token, so that it stays out of histories."""
    query = [pair for pair in parse_qsl(request.url.query, keep_blank_values=True) if pair[0] != "token"]
    # Two slashes at the start would lead to another host.
    path = "/" + quote(request.scope["path"].lstrip("/\\"))
    return RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), status_code=303)


def with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    """Return what sends an answer with the headers that every one carries."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], *HEADERS]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return sent
