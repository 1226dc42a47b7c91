"""Learning curves whose truth is known: every shape that real runs take, with the noise that real evaluations have."""

from bench.synthetic.curves import SHAPES, SyntheticCurve, draw, suite

__all__ = ["SHAPES", "SyntheticCurve", "draw", "suite"]
