"""The command lines that the pages show: what of a fenced block a shell would run."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
AT_ROOT = (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
PAGES = (*AT_ROOT, *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(sh|bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAMS = ("rlplan", "make", "python")
JOINTS = {"&&", "||", ";", "|", "&"}


@dataclass(frozen=True, slots=True)
class Line:
    """One command as it stands on a page, and its words as a shell would split them."""

    page: Path
    text: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """The program that it starts."""
        return self.words[0]

    def __str__(self) -> str:
        return f"{self.page.name}: {self.text}"


def name(page: Path) -> str:
    """Return what a page is called in the name of a test."""
    return str(page.relative_to(ROOT))


def lines(page: Path) -> Iterator[Line]:
    """Yield the commands of a page's blocks, in their order."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        for text in _typed(block[1], block[2]):
            for words in _commands(text):
                if words and words[0] in PROGRAMS:
                    yield Line(page, text, words)


def _typed(language: str, block: str) -> Iterator[str]:
    """Yield the lines that are typed; a console's are those with a prompt, and a backslash joins two."""
    for line in block.replace("\\\n", " ").splitlines():
        if language == "console":
            if line.startswith("$ "):
                yield " ".join(line[2:].split())
        else:
            yield " ".join(line.split())


def _commands(text: str) -> Iterator[tuple[str, ...]]:
    """Split a line into its commands, without what is done to their output."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    words: list[str] = []
    skip = False
    for word in reader:
        if word in JOINTS:
            yield tuple(words)
            words = []
        elif word.startswith(">"):
            skip = True
        elif skip:
            skip = False
        else:
            words.append(word)
    yield tuple(words)
