"""What a sweep has learnt from earlier ones, frozen in its settings, and what it leaves behind for later ones."""

from collections.abc import Mapping, Sequence

from planner.experience.experience import Experience
from planner.experience.extracting import FEWEST, experience_of
from planner.experience.plain import from_plain
from planner.experience.teaching import TransferPriors
from planner.pooling.pool import Pool
from planner.view import Configuration, ScorePoint, has_curve
from runner.sweep.board import Board
from runner.sweep.spec import SweepSpec


def pool_of(spec: SweepSpec) -> Pool:
    """Return a pool that believes what the sweep's sources say, as far as its curves bear them out."""
    if spec.learnt is None:
        return Pool()
    return Pool(experienced(spec.learnt.sources, spec.learnt.about))


def experienced(sources: Sequence[object], about: Mapping[str, str]) -> TransferPriors:
    """Return what teaches the sources of a sweep, from plain data."""
    found = tuple(from_plain(each, f"the sweep's source {number}") for number, each in enumerate(sources, 1))
    return TransferPriors(found, about)


def left_behind(board: Board) -> Experience:
    """Return what a sweep has learnt so far; InputError where too few configurations have a curve."""
    target = board.spec.target_gpu_hours
    return experience_of(board.sweep, _curves(board), target, board.about())


def tells(board: Board) -> bool:
    """Whether enough configurations have a curve for a later sweep to learn from."""
    return len({configuration for configuration, _ in _curves(board)}) >= FEWEST


def _curves(board: Board) -> list[tuple[Configuration, tuple[ScorePoint, ...]]]:
    return [(trial.configuration, trial.scores) for trial in board.trials.values() if has_curve(trial)]
