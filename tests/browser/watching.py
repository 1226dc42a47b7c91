"""A page in the browser that is watched: what it logs, what it asks the network for, and how it looks."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request

PICTURES = Path(os.environ.get("RLPLAN_SCREENSHOTS") or Path(__file__).parents[2] / "screenshots")
MEASURES = Path(__file__).with_name("measures.js").read_text(encoding="utf-8")
LEFT = "net::ERR_ABORTED"
SECONDS = 30  # until a page on a busy machine has drawn what is waited for


@dataclass
class Eye:
    """Looks at one page, and notes what goes wrong there."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(1000 * SECONDS)
        self.page.add_init_script(MEASURES)
        self.page.on("console", self._logged)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("request", self._asked)
        self.page.on("dialog", lambda dialog: dialog.accept())

    def open(self, address: str) -> int | None:
        """Open a page, and return the status of the answer; a file has none."""
        self.home = address
        answer = self.page.goto(address)
        assert answer is not None
        return answer.status or None

    def measure(self, what: str, *given: Any) -> Any:
        """Return what a function of measures.js finds."""
        return self.page.evaluate(f"given => measures.{what}(...given)", list(given))

    def see_all(self) -> None:
        """Scroll through the page until everything on it is drawn, and back to its top."""
        self.page.evaluate("measures.seeAll()")

    def picture(self, name: str, *, whole: bool = False) -> None:
        """Keep a picture of the page, for people to look at."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=whole, animations="disabled")

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.wrong.append(f"{message.type}: {message.text}")

    def _failed(self, request: Request) -> None:
        # A page that is left drops what it was fetching; nothing else may fail.
        if request.failure != LEFT:
            self.wrong.append(f"failed: {request.url} ({request.failure})")

    def _asked(self, request: Request) -> None:
        to, home = urlsplit(request.url), urlsplit(self.home)
        inside = to.scheme in {"data", "blob"} or (to.scheme, to.netloc) == (home.scheme, home.netloc)
        if not inside or (to.scheme == "file" and request.url.split("#")[0] != self.home.split("#")[0]):
            self.wrong.append(f"asked the network for {request.url}")
