"""Who goes on to the end: the champion, or a challenger that is likely to gain what its hours have cost."""

from dataclasses import dataclass

from planner.view import Configuration, View


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes the final run, and how likely a challenger was to end above the champion."""

    configuration: Configuration
    switched: bool
    challenger: Configuration | None  # the likeliest to gain, where one was looked at
    probability: float | None  # that it ends above the champion, with the GPU-hours that each would have
    gain: float | None  # expected of it
    bar: float  # the probability from which it takes the champion's place
    why: str  # in a sentence


def verdict(view: View) -> Verdict:
    """Return who goes on by what a view shows; the view has a champion."""
    raise NotImplementedError
