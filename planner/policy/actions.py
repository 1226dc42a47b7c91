"""What a policy is, what it can ask for, and the reasons that are stored with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from planner.view import Axes, View


@dataclass(frozen=True, slots=True)
class Why:
    """The grounds of a decision: one sentence, the numbers it rests on, and what else could have been done."""

    reason: str
    figures: dict[str, Any] = field(default_factory=dict)
    alternatives: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Advance:
    """Train a ready trial, new or paused, up to a step; the sweep shortens it to what the budget pays for."""

    trial: int
    to_step: int
    why: Why


@dataclass(frozen=True, slots=True)
class Prune:
    """Give a planned or paused trial no more."""

    trial: int
    why: Why


@dataclass(frozen=True, slots=True)
class Finish:
    """Close a paused trial that has had all it was to get."""

    trial: int
    why: Why


@dataclass(frozen=True, slots=True)
class Propose:
    """Plan a trial of an open cell, or another run of a configuration, which the next decision can then start.

    The axes are the open cell's; where its learning rate is searched for, with the factor that the trial is to have.
    """

    rollouts_per_prompt: int
    prompts_per_batch: int
    why: Why
    axes: Axes = ()
    seed: int | None = None  # of a further run of a configuration that has one; without it, the sweep's


@dataclass(frozen=True, slots=True)
class Stop:
    """Start nothing more; what runs may end."""

    why: Why


Action = Advance | Prune | Finish | Propose | Stop


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
