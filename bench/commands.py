"""What benches share: rlplan's commands, and tables."""

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

RLPLAN = str(Path(sys.executable).with_name("rlplan"))


def rlplan(folder: Path, *words: str, accepted: Collection[int] = (0, 5)) -> dict[str, Any]:
    """Return the document that a command prints in a folder; exit code 5 is a warning that stands."""
    done = subprocess.run([RLPLAN, *words, "--format", "json"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in accepted:
        sys.exit(f"rlplan {' '.join(words)} in {folder}: {done.stderr[-2000:]}")
    document: dict[str, Any] = json.loads(done.stdout or "{}")
    return document


def table(rows: list[list[str]], *, markdown: bool = False) -> str:
    """Align rows in columns, the first row being the heads."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    rule = ["-" * width for width in widths]
    if not markdown:
        return "\n".join("  ".join(row).rstrip() for row in [cells[0], rule, *cells[1:]])
    plain = [rows[0], ["---"] * len(widths), *rows[1:]]
    return "\n".join("| " + " | ".join(row) + " |" for row in plain)
