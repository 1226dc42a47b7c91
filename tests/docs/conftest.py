"""The command line, run as the tests of rlplan/ run it."""

from tests.rlplan.conftest import run

__all__ = ["run"]
