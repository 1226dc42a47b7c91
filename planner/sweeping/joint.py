"""The seam between what is believed of all configurations together and whatever is computed from that."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from planner.view import Configuration


class Joint(Protocol):
    """The joint distribution of the mean scores of all configurations, with and without a curve, as draws."""

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """In the order of the draws' columns."""
        ...

    def scores(self, gpu_hours: Sequence[float]) -> NDArray[np.float64]:
        """Return draws × configurations × computes: the mean score of a run that has used so many GPU-hours.

        A row is one state of the world at every compute, so that differences between columns and along a curve mean
        something; what a new run's seed adds is not in it.
        """
        ...
