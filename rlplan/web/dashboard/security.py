"""Stands before every page: whom it lets through, what every answer carries, and which forms are believed."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budgets.errors import InputError
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
ADDRESS = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|\d+(\.\d+){3})(:\d{1,5})?")
OWN = "rlplan.own"  # in the scope of a request that is meant for this dashboard
ADMITTED, SEAL = "admitted", "seal"  # in a visitor's session
MOST_BYTES, MOST_FIELDS = 2000, 10  # of a form with one seal in it
FORM_SECONDS = 15.0  # in which a form has to come


class ForgedError(InputError):
    """A form did not come from a page of this dashboard."""


class Guard:
    """An application around another: host and token first, then the rest; the headers on everything."""

    def __init__(self, pages: ASGIApp, settings: Settings) -> None:
        self._pages, self._settings = pages, settings
        self._names = TrustedHostMiddleware(_mark_own, settings.names, www_redirect=False)
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
        elif await self._is_own(scope, receive):
            await self._visits(scope, receive, with_headers(send))
        else:
            advice = "Open it under the address that it printed when it was started: it answers to no other name."
            await problem(Request(scope), 421, advice)(scope, receive, with_headers(send))

    async def _is_own(self, scope: Scope, receive: Receive) -> bool:
        """Whether the request is for this dashboard; Starlette's check is asked, but its refusal says no way out.

        A page elsewhere may have its own name resolve to this machine, and read what is served here under it. Only
        numbers are safe from that, so on all interfaces any address will do, but of names only this machine's.
        """
        if self._settings.on_all_interfaces:
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            if len(hosts) == 1 and ADDRESS.fullmatch(hosts[0]):
                return True
        await self._names(scope, receive, _say_nothing)
        return bool(scope.get(OWN))

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
        if given is None and (self._bears_token(request) or request.session.get(ADMITTED)):
            return None
        advice = "Open it once with the address that it printed when it was started, which ends in ?token=…"
        return problem(request, 401, f"This dashboard needs its token. {advice}")

    def _bears_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and same(token.strip(), self._settings.token or "")

    def _wrong_method(self, request: Request) -> Response | None:
        allowed = {"GET", "HEAD"} | ({"POST"} if self._settings.control else set())
        if request.method in allowed:
            return None
        answer = problem(request, 405, "This dashboard only shows: it changes nothing.")
        answer.headers["allow"] = ", ".join(sorted(allowed))
        return answer


def cookie_name(settings: Settings) -> str:
    """Name the cookie; browsers share cookies between the ports of a host, and each dashboard needs its own."""
    return f"rlplan-{settings.port}"


def same(given: str, right: str) -> bool:
    """Whether both are the same, in a time that does not tell where they differ."""
    return bool(right) and secrets.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())


def seal_of(request: Request) -> str:
    """Return what the forms of a visitor's session bring back."""
    seal: str = request.session.get(SEAL) or secrets.token_hex(32)
    if request.session.get(SEAL) != seal:
        request.session[SEAL] = seal
    return seal


async def check_form(request: Request) -> None:
    """Raise ForgedError unless the form was shown to this visitor, by this dashboard."""
    if not _is_from_here(request):
        raise ForgedError("the form came from another site, so nothing was asked of the sweep")
    form = await _form(request)
    if not same(form.get("seal", ""), request.session.get(SEAL, "")):
        raise ForgedError("the form is from an older page: go back to the sweep, reload it and press again")


def _is_from_here(request: Request) -> bool:
    """Whether the browser says that the form was on a page of this host; one that says nothing is not believed."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") == "same-origin"
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc == request.headers.get("host")


async def _form(request: Request) -> Mapping[str, str]:
    body = b""
    try:
        async with asyncio.timeout(FORM_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ForgedError("the form is larger than any of this dashboard's")
    except (ClientDisconnect, TimeoutError) as error:
        raise ForgedError("the form did not come whole") from error
    try:
        fields = parse_qs(body.decode("ascii", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise ForgedError("the form has more fields than any of this dashboard's") from error
    return {name: values[0] for name, values in fields.items()}


def _without_token(request: Request) -> Response:
    """Send the visitor to the same address without the token, so that it stays out of histories."""
    query = [pair for pair in parse_qsl(request.url.query, keep_blank_values=True) if pair[0] != "token"]
    # Two slashes at the start would lead to another host.
    path = "/" + quote(request.scope["path"].lstrip("/\\"))
    return RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), status_code=303)


async def _mark_own(scope: Scope, _: Receive, __: Send) -> None:
    scope[OWN] = True


async def _say_nothing(_: Message) -> None:
    pass


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
