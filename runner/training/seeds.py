"""Random numbers without state: every draw of a trial has a seed made from what it is for and when.

A trial that is interrupted and resumed therefore draws the same numbers without any generator having to be saved.
"""

import hashlib


def derive(seed: int, *purpose: str | int) -> int:
    """Return a seed of 63 bits for one purpose, such as ("rollouts", step, round)."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
