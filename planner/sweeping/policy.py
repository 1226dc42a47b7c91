"""The seam between a sweep and what decides in it."""

from collections.abc import Sequence
from typing import Protocol

from planner.sweeping.actions import Action
from planner.view import View


class Policy(Protocol):
    """Decides from a view alone; what it keeps from call to call only saves time and never changes an answer."""

    @property
    def name(self) -> str:
        """The name under which `--policy` knows it."""
        ...

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now: at most as many `Advance` as workers are free, in the order of their worth.

        It is asked when a segment has ended and when a worker is free. An empty answer while nothing runs and nothing
        rests ends the sweep.
        """
        ...
