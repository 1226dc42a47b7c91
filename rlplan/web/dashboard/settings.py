"""What a dashboard is told to do, checked before anything listens."""

import ipaddress
import secrets
import socket
from dataclasses import dataclass
from urllib.parse import quote

from budgets.errors import InputError

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8787
SHORTEST_TOKEN = 16
TOKEN_VARIABLE = "RLPLAN_DASHBOARD_TOKEN"
MAKE_ONE = "auto"
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a dashboard listens, who may look, and what it shows."""

    database: str
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str | None = None

    @property
    def url(self) -> str:
        """The address to open; with the token, since the first visit has to show it."""
        return f"{self.address}/" + (f"?token={quote(self.token, safe='')}" if self.token else "")

    @property
    def address(self) -> str:
        """The address without the token; of a dashboard on all interfaces, by this machine's name."""
        host = socket.gethostname() if self.on_all_interfaces else self.host
        return f"http://{bracketed(host)}:{self.port}"

    @property
    def names(self) -> list[str]:
        """The hosts that it answers to; on all interfaces it also answers to any address."""
        own = socket.gethostname() if self.on_all_interfaces else bracketed(self.host)
        return [*LOCAL_NAMES, own]

    @property
    def on_all_interfaces(self) -> bool:
        """Whether whoever reaches this machine reaches it."""
        address = _address(self.host)
        return address is not None and address.is_unspecified


def checked(database: str, host: str, port: int, token: str | None) -> Settings:
    """Return the settings; InputError for what would let strangers in, or cannot work."""
    if token == MAKE_ONE:
        token = secrets.token_urlsafe(24)
    if token is not None:
        _check_token(token)
    if not host.strip() or any(sign.isspace() or sign == "/" for sign in host):
        raise InputError(f"--host '{host}' is no host: give a name or an address of this machine, such as 127.0.0.1")
    if token is None and not is_loopback(host):
        raise InputError(
            f"--host {host} shows the sweeps to all who reach this machine, so it needs a token: add --token "
            f"{MAKE_ONE}, or set {TOKEN_VARIABLE} ({SHORTEST_TOKEN} characters or more). Leave --host out to be alone"
        )
    return Settings(database, host, port, token)


def _check_token(token: str) -> None:
    if len(token) < SHORTEST_TOKEN:
        raise InputError(
            f"the token has {len(token)} characters and could be guessed: it takes {SHORTEST_TOKEN} or more; "
            f"--token {MAKE_ONE} makes one"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"the token holds spaces, or signs that are not ASCII, which a browser would not send as they are: "
            f"--token {MAKE_ONE} makes one"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that host."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def bracketed(host: str) -> str:
    """Write a host as addresses on the web have it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
