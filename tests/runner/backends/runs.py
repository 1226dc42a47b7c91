"""Trials that are run in one go, or with interruptions, and how to compare what they gave."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Point, Segment
from runner.ports.trial import TrialConfig
from runner.training import checkpoints


def run(config: TrialConfig, folder: Path, steps: int, stops: Sequence[int] = ()) -> tuple[list[Point], dict[str, Any]]:
    """Train to `steps`, saving and starting a new process's worth of objects at each stop; return points and state."""
    backend = BuiltinBackend()
    backend.start(config, folder)
    points: list[Point] = []
    for stop in (*stops, steps):
        points += backend.advance(Segment(stop))
        backend.checkpoint()
        if stop != steps:
            backend.close()
            backend = BuiltinBackend()
            assert backend.restore(config, folder) == stop
    backend.close()
    return points, checkpoints.load(folder).state["trainer"]


def without_time(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return all of the points but the seconds, which are the machine's and not the trial's."""
    kept = []
    for point in points:
        values = asdict(point)
        del values["seconds"], values["gpu_hours"]
        values["metrics"] = {key: value for key, value in values["metrics"].items() if key != "seconds"}
        kept.append(values)
    return kept


def assert_same_state(one: Any, other: Any) -> None:
    """Compare two saved states bit for bit, the seconds aside."""
    for state in (one, other):
        state["progress"] = state["progress"][:3]
    assert _frozen(one) == _frozen(other)


def resumed_alike(config: TrialConfig, folder: Path, steps: int, stops: Sequence[int]) -> list[Point]:
    """Assert that a trial ends the same in one go and with stops; return the points."""
    points, state = run(config, folder / "whole", steps)
    resumed, same = run(config, folder / "cut", steps, stops=stops)
    assert without_time(resumed) == without_time(points)
    assert_same_state(same, state)
    return points


def _frozen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.detach().contiguous().view(-1).numpy().tobytes()
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return [_frozen(item) for item in value] if isinstance(value, list | tuple) else value
