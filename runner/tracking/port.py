"""The port to an experiment tracker: what each of the adapters in this folder does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from planner.config.cluster import TrackingSection


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

    @property
    def numbers(self) -> dict[str, float]:
        """Return what of the summary can be drawn."""
        return {name: value for name, value in self.summary.items() if isinstance(value, int | float)}


class Tracker:
    """Takes news of runs."""

    def take(self, news: News) -> None:
        """Go on with the run of that name, or begin it, and return once the news are the tracker's; else raise."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of all runs, where any are held."""


def open_tracker(section: TrackingSection) -> Tracker:
    """Return the adapter of the tracker that the section names."""
    adapters = import_module(f"runner.tracking.to_{section.to}")
    tracker: Tracker = getattr(adapters, f"{str(section.to).title()}Tracker")(section.project)
    return tracker
