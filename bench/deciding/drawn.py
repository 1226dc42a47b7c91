"""Records the worlds of bench/deciding/held_out.py."""

import math

import numpy as np

from bench.deciding.held_out import MAKERS, Course, Draft, Vector
from bench.deciding.measuring import measured, places, wandering
from planner.replay.recorded import Recorded

FALL = 0.03  # of the target: how fast a run that collapses does
SEED_LIMIT = 2.0  # standard deviations: what is published of seeds is a largest difference


def drawn(name: str, seed: int, points: int | None = None) -> tuple[Recorded, float]:
    """Return a drawn table and its target; its runs have so many points, the generator's own number without it."""
    rng = np.random.default_rng([seed, *name.encode(), 7])
    draft = MAKERS[name](rng)
    at = places(points or draft.points, draft.target)
    runs = [
        measured(course.configuration, run, at, _mean(course, draft, at, rng), draft.answers, rng)
        for course in draft.courses
        for run in range(draft.seeds)
    ]
    return Recorded(tuple(runs)), draft.target


def _mean(course: Course, draft: Draft, at: Vector, rng: np.random.Generator) -> Vector:
    """Return the curve of one run: its seed moves height and pace, lets it wander and may make it collapse."""
    pace = math.exp(rng.normal(0, course.seed_log_time_sd))
    moved = np.clip(rng.normal(0, 1), -SEED_LIMIT, SEED_LIMIT) * course.seed_sd
    plain = course.mean(at * pace)
    span = float(np.ptp(plain))
    grown = (plain - plain[0]) / span if span > 0 else np.ones_like(plain)  # seeds start from one checkpoint
    curve = plain + moved * grown + wandering(at.size, draft.ripple, rng) * np.minimum(1.0, 4 * at / draft.target)
    if rng.random() < course.collapse:
        where = draft.target * rng.uniform(0.05, 0.9)
        curve = curve * np.clip(1 - (at - where) / (FALL * draft.target), 0, 1)
    return np.asarray(np.clip(curve, 0, 1))
