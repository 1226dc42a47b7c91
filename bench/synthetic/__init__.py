"""Learning curves whose truth is known: every shape that real runs take, with the noise that real evaluations have."""

from bench.synthetic.curves import PER_HUNDRED, SHAPES, SyntheticCurve, draw, suite

__all__ = ["PER_HUNDRED", "SHAPES", "SyntheticCurve", "draw", "suite"]
