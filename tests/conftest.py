"""What holds for every test."""

import signal

import pytest
from hypothesis import settings

# A shell that starts the tests in the background has them ignore Ctrl-C, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test fails because a machine is slow, and the same code is judged by the same examples.
settings.register_profile("rlplan", deadline=None, derandomize=True)
settings.load_profile("rlplan")

# Suites that test modules take in: their assertions should be explained like any other's.
pytest.register_assert_rewrite(
    "tests.conformance.executor",
    "tests.conformance.rollout_engine",
    "tests.conformance.trainer_backend",
)
