"""Who may look at the dashboard: its address, its token, and the headers that every answer carries."""

import hashlib
import re
import secrets
import socket
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from fastapi import Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from budgets.errors import InputError

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
