"""What text is drawn on, with the signs and the width that there are."""

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_PLAIN = str.maketrans(
    {"–": "-", "±": "+-", "…": "...", "×": "x", "≤": "<=", "≥": ">=", "·": "*", "√": "sqrt", "α": "alpha"}
)


@dataclass(frozen=True, slots=True)
class Canvas:
    """What is drawn on."""

    width: int
    height: int | None = None  # lines; None for as many as it takes
    unicode: bool = True

    def spelled(self, text: str) -> str:
        """Write on one line, with the signs that there are; a reason or a log may hold anything."""
        text = "".join(sign if sign.isprintable() else " " for sign in text)
        return text if self.unicode else text.translate(_PLAIN).encode("ascii", "replace").decode()

    def cut(self, text: str, width: int | None = None) -> str:
        """Cut a spelled text to a width, by default the whole, and mark that it was cut."""
        most = self.width if width is None else width
        if len(text) <= most:
            return text
        return text[: most - 1] + ("…" if self.unicode else "~") if most > 0 else ""

    def line(self, text: str, style: str = "") -> "Text":
        """Return a text as one line."""
        from rich.text import Text  # noqa: PLC0415

        return Text(self.cut(self.spelled(text)), style=style, no_wrap=True)

    def lines(self, text: str, style: str = "") -> list["Text"]:
        """Return a text as lines that are broken between words."""
        return [self.line(part, style) for part in wrap(self.spelled(text), self.width)]
