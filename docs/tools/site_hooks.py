"""What the site shows beside docs/: the changelog and the notes for contributors, which lie at the project's root."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[2]
AT_ROOT = ("CHANGELOG.md", "CONTRIBUTING.md")
LINK = re.compile(rf"\]\((?:\.\./)+({'|'.join(AT_ROOT)})(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the root's pages, as if they lay in docs/."""
    for name in AT_ROOT:
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name.lower(), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links between these pages and those of docs/, which suit the repository, lead somewhere on the site."""
    if page.file.src_uri in {name.lower() for name in AT_ROOT}:
        return markdown.replace("](docs/", "](")

    def found(link: re.Match[str]) -> str:
        target = get_relative_url(link[1].lower(), page.file.src_uri.rpartition("/")[0] + "/")
        return f"]({target}{link[2] or ''})"

    return LINK.sub(found, markdown)
