"""A dashboard of a seeded sweep, and who visits it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from rlplan.web.dashboard.app import Dashboard
from rlplan.web.dashboard.settings import DEFAULT_HOST, DEFAULT_PORT, checked

TOKEN = "a-token-of-enough-characters"
HOME = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
PAGE = {"accept": "text/html"}
PATIENCE_SECONDS = 120


@contextmanager
def visiting(
    database: Path | str, *, token: str | None = None, host: str = DEFAULT_HOST, **options: Any
) -> Iterator[TestClient]:
    """Open a dashboard, and visit it."""
    dashboard = Dashboard(checked(str(database), host, DEFAULT_PORT, token))
    with TestClient(dashboard, base_url=HOME, headers=PAGE, follow_redirects=False, **options) as client:
        yield client
