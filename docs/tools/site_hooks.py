"""What the site shows beside docs/: the changelog, the notes for contributors, and an index for language models."""

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


def on_post_build(config: Any, **_: Any) -> None:
    """Write llms.txt: what rlplan is, how an agent uses it, and every page with its first sentence (llmstxt.org)."""
    skill = (ROOT / "skills/rlplan/SKILL.md").read_text(encoding="utf-8").partition("# rlplan\n")[2].strip()
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", skill, "", "## Pages", ""]
    for page in sorted(Path(config.docs_dir).rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        title = text.partition("\n")[0].lstrip("# ")
        place = page.relative_to(config.docs_dir).with_suffix("")
        said = _first_sentence(text)
        lines.append(f"- [{title}]({'' if place.name == 'index' else f'{place}/'})" + (f": {said}" if said else ""))
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _first_sentence(text: str) -> str:
    """Return the first sentence of a page that is no heading, list, table or code."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    blocks = (" ".join(block.split()) for block in prose.split("\n\n"))
    first = next((block for block in blocks if block[:1].isalpha() or block[:1] in "`*"), "")
    return re.split(r"(?<=[.:])\s", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first))[0]
