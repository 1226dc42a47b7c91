"""Reads a page as a browser would, and finds what was not meant to be on it."""

import json
import re
from html.parser import HTMLParser
from typing import Any

OURS = {"src", "href", "action", "formaction"}


class Page(HTMLParser):
    """The elements of a page, its text, and its blocks of data."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.blocks: list[Any] = []
        self.scripts: list[str] = []
        self.text = ""
        self._open = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open != "script":
            self.text += data
        elif self.elements[-1][1].get("type") == "application/json":
            self.blocks.append(json.loads(data))
        else:
            self.scripts.append(data)


def clean(html: str, *, scripts: int = 0) -> Page:
    """Check that a page holds no markup but ours; `scripts` of ours may stand on it, all others in files."""
    page = Page(html)
    assert len(page.scripts) == scripts
    for tag, attributes in page.elements:
        assert tag not in {"img", "iframe", "object", "embed", "base", "textarea", "frame", "applet"}
        assert not [name for name in attributes if name.startswith("on") or name == "srcdoc"], (tag, attributes)
        assert attributes.get("hx-get", "") == ""  # a page asks for itself alone
        for name in OURS & attributes.keys():
            assert re.match(r"(/(?!/)|#|data:,)", attributes[name]), (tag, attributes)
    return page
