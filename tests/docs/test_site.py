"""The site is built without a warning, and no page of it fetches anything from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.lines import ROOT

FETCHING = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)"
)
IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def test_every_page_is_there_and_fetches_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        assert FETCHING.findall(page.read_text(encoding="utf-8")) == [], page
    for style in site.rglob("*.css"):
        assert IN_STYLES.findall(style.read_text(encoding="utf-8")) == [], style


def test_pages_of_the_root_are_part_of_it(site: Path) -> None:
    assert "semantic versioning" in (site / "changelog" / "index.html").read_text(encoding="utf-8").lower()
    assert 'href="../contributing/"' in (site / "extending" / "index.html").read_text(encoding="utf-8")


def test_no_tool_of_ours_is_published(site: Path) -> None:
    assert list(site.rglob("*.py")) == []
