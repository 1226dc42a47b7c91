"""Listens, and ends at once when it is told to."""

import contextlib
import errno
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

import uvicorn

from budgets.errors import InputError
from planner.store import open_store
from planner.store.engine import masked
from rlplan.exits import ExitCode
from rlplan.web.dashboard.app import Dashboard
from rlplan.web.dashboard.assets import assets
from rlplan.web.dashboard.settings import Settings, is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCH_SECONDS = 0.001
ENDING_SECONDS = 1  # for answers that are under way when it ends
MOST_CONNECTIONS = 1000


class Server(uvicorn.Server):
    """A server that says when it can be visited, and reads nothing more once it ends."""

    def __init__(self, dashboard: Dashboard, started: "Callable[[], None] | None" = None) -> None:
        super().__init__(
            uvicorn.Config(
                dashboard,
                http="h11",
                ws="none",
                lifespan="off",  # nothing is begun before the first visitor, and serve() ends what is under way
                access_log=False,  # addresses may hold the token
                log_level="error",
                server_header=False,
                proxy_headers=False,  # a header that anybody can send says nothing about where a request comes from
                timeout_graceful_shutdown=ENDING_SECONDS,
                h11_max_incomplete_event_size=16_384,
                limit_concurrency=MOST_CONNECTIONS,
            )
        )
        self._dashboard, self._started = dashboard, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self._started is not None:
            self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; what is being read would otherwise be waited for."""
        self._dashboard.live.close()
        await super().shutdown(sockets)


def serve(settings: Settings) -> NoReturn:
    """Serve the dashboard until Ctrl-C, and end the process."""
    with open_store(settings.database, read_only=True):
        pass  # what is wrong with the database is said at once, not on a page
    sock, dashboard = listening(settings), Dashboard(settings)
    # Packing plotly's script takes half a second; the first page is not to wait for it.
    threading.Thread(target=assets, name="assets", daemon=True).start()
    # Threads that read and fit give way to visitors after so long; five times as much is felt with eight of them.
    sys.setswitchinterval(SWITCH_SECONDS)
    with contextlib.suppress(KeyboardInterrupt):
        Server(dashboard, lambda: _announce(settings)).run(sockets=[sock])
    # A read or a fit may be under way, which changes nothing: nobody is to wait for it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.DONE)


def listening(settings: Settings) -> socket.socket:
    """Take the port; InputError when it cannot be had."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InputError(
            f"--host {settings.host} is no address of this machine ({error.strerror}): leave it out for 127.0.0.1"
        ) from error
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen(socket.SOMAXCONN)
    except OSError as error:
        sock.close()
        raise InputError(_refused(settings, error)) from error
    return sock


def _refused(settings: Settings, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {settings.port} of {settings.host} is in use, perhaps by another dashboard: give another one, such "
            f"as --port {settings.port + 1}"
        )
    if error.errno == errno.EACCES:
        return f"port {settings.port} is not for this user: give one above 1023, such as --port 8787"
    return f"{settings.host} cannot be listened on ({error.strerror}): leave --host out for 127.0.0.1"


def announcement(settings: Settings) -> list[str]:
    """Return what is said when it can be visited."""
    lines = [f"rlplan dashboard of {masked(settings.database)}: {settings.url}"]
    if settings.token is not None and not is_loopback(settings.host):
        lines.append("Whoever has this address can look; it is not encrypted on its way: see ssh -L for that.")
    return [*lines, "Ctrl-C ends it; the sweep goes on."]


def _announce(settings: Settings) -> None:
    sys.stderr.write("\n".join(announcement(settings)) + "\n")
    sys.stderr.flush()
