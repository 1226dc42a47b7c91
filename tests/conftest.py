"""What holds for every test."""

import pytest
from hypothesis import settings

# No test fails because a machine is slow, and the same code is judged by the same examples.
settings.register_profile("rlplan", deadline=None, derandomize=True)
settings.load_profile("rlplan")

# Suites that test modules take in: their assertions should be explained like any other's.
pytest.register_assert_rewrite("tests.conformance.rollout_engine", "tests.conformance.trainer_backend")
