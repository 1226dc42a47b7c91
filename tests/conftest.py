"""What holds for every test."""

import os
import shutil
import signal
from pathlib import Path

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

MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory where there is room: on a disk each commit of a database waits for it.

    Long tests write more, so that they stay on the disk.
    """
    short = "not soak" in config.getoption("markexpr")
    if short and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
