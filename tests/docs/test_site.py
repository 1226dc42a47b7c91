"""The site is built without a warning, and no page of it fetches anything from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.lines import ROOT

FETCHING = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)"
)
IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)")


def test_every_page_is_there_and_fetches_nothing_and_no_tool_of_ours_is_published(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        assert FETCHING.findall(page.read_text(encoding="utf-8")) == [], page
    for style in tmp_path.rglob("*.css"):
        assert IN_STYLES.findall(style.read_text(encoding="utf-8")) == [], style
    assert "semantic versioning" in (tmp_path / "changelog" / "index.html").read_text(encoding="utf-8").lower()
    assert 'href="../contributing/"' in (tmp_path / "extending" / "index.html").read_text(encoding="utf-8")
    assert list(tmp_path.rglob("*.py")) == []
    assert "(concepts/costs/): A price is" in (tmp_path / "llms.txt").read_text(encoding="utf-8")
