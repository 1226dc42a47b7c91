"""What a run left in its folder."""

import json
from pathlib import Path
from typing import Any


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def steps(folder: Path) -> list[int]:
    return [line["step"] for line in metrics(folder)]


def curve_steps(folder: Path) -> list[int]:
    return [int(line.split(",")[0]) for line in (folder / "curve.csv").read_text().splitlines()[1:]]
