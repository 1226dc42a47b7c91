"""The examples of docs/plug-ins.md."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "plug-ins.md"


def example(word: str) -> str:
    """Return the one block of Python that has a word in it."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (block for block in blocks if word in block)
    return str(found)
