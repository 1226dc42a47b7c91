"""Curves that were read, in the terms tests compare them in."""

from pathlib import Path
from typing import Any

from planner.curves.curve import Curve
from planner.curves.reading import read_curves


def only(path: Path, **named: Any) -> Curve:
    (curve,) = read_curves(path, **named)
    return curve


def points(curve: Curve) -> list[tuple[float, float]]:
    return list(zip(curve.x.tolist(), curve.y.tolist(), strict=True))


def noted(curve: Curve, part: str) -> bool:
    return any(part in note for note in curve.notes)
