"""Runs rlplan's commands for benches that go through whole sweeps."""

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
