"""The files that pages refer to: a fixed few, held in memory, so that no address ever leads to the disk."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

from rlplan.web.page import plotly_script, scripts, styles

YEAR_SECONDS = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Asset:
    """One file; its version is in its address, so that a browser may keep it."""

    body: bytes
    packed: bytes
    media_type: str
    version: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return all files by name."""
    own = files("rlplan.web.dashboard") / "static"
    text = {
        "htmx.min.js": (own / "htmx.min.js").read_text(encoding="utf-8"),
        "dashboard.js": (own / "dashboard.js").read_text(encoding="utf-8"),
        "dashboard.css": (own / "dashboard.css").read_text(encoding="utf-8"),
        "rlplan.css": styles(),
        "rlplan.js": scripts(),
        "plotly.min.js": plotly_script(),
    }
    return MappingProxyType({name: _asset(name, content.encode()) for name, content in text.items()})


def _asset(name: str, body: bytes) -> Asset:
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Asset(body, gzip.compress(body, 6), kind, hashlib.sha256(body).hexdigest()[:12])


def address(name: str) -> str:
    """Return a file's address on the dashboard."""
    return f"/static/{name}?v={assets()[name].version}"


def served(asset: Asset, request: Request) -> Response:
    """Answer a request for a file; under the address of its version it may be kept."""
    packs = "gzip" in request.headers.get("accept-encoding", "")
    keeps = request.query_params.get("v") == asset.version
    headers = {
        "cache-control": f"private, max-age={YEAR_SECONDS}, immutable" if keeps else "no-cache",
        "etag": f'"{asset.version}{"-gzip" if packs else ""}"',
        "vary": "accept-encoding",
    } | ({"content-encoding": "gzip"} if packs else {})
    return Response(asset.packed if packs else asset.body, headers=headers, media_type=asset.media_type)
