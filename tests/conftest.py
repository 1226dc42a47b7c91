"""What holds for every test."""

from hypothesis import settings

# No test fails because a machine is slow, and the same code is judged by the same examples.
settings.register_profile("rlplan", deadline=None, derandomize=True)
settings.load_profile("rlplan")
