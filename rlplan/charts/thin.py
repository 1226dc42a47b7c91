"""Curves with as few points as a picture shows."""

from collections.abc import Sequence

from rlplan.reading.sweep_picture import Score
from rlplan.reading.thinning import thinned


def curve(scores: Sequence[Score], most: int) -> list[Score]:
    """Return at most so many of a curve's scores, as they are: the first, the last and what gives it its shape."""
    if len(scores) <= most:
        return list(scores)
    kept = thinned([score.gpu_hours for score in scores], [score.score for score in scores], most)
    return [scores[int(index)] for index in kept]
