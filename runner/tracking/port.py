"""The port to an experiment tracker: one method, which each of the adapters in this folder has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from planner.config.tracking import TrackingSection


@dataclass(frozen=True, slots=True)
class News:
    """What is new of a run: a trial's, or the sweep's own, which has its answer as a summary."""

    run: str  # no other run of any database has this name
    group: str  # the sweep
    config: Mapping[str, Any]
    points: Sequence[tuple[int, Mapping[str, float]]]  # values by optimizer step, in its order
    summary: Mapping[str, Any]  # plain values, the state among them
    ended: bool
    failed: bool


class Tracker(Protocol):
    """Takes news of runs."""

    def take(self, news: News) -> None:
        """Go on with the run of that name, or begin it, and return once the news are the tracker's; else raise."""

    def close(self) -> None:
        """Let go of all runs."""


def open_tracker(section: TrackingSection) -> Tracker:
    """Return the adapter of the tracker that the section names."""
    tracker: Tracker = import_module(f"runner.tracking.to_{section.to}").open_project(section.project)
    return tracker
