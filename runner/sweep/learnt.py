"""What a sweep has learnt from earlier ones, frozen in its settings so that a resumed sweep is the same."""

from planner.experience.plain import from_plain
from planner.experience.teaching import Experienced
from planner.pooling.pool import Pool
from runner.sweep.spec import SweepSpec


def pool_of(spec: SweepSpec) -> Pool:
    """Return a pool that believes what the sweep's sources say, as far as its curves bear them out."""
    learnt = spec.learnt
    if learnt is None:
        return Pool()
    sources = tuple(from_plain(each, f"the sweep's source {number}") for number, each in enumerate(learnt.sources, 1))
    return Pool(Experienced(sources, learnt.about))
