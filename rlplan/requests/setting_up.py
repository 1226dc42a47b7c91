"""What is asked of `rlplan doctor`."""

from dataclasses import dataclass

from rlplan.requests.flags import toggle
from rlplan.requests.request import StoredRequest


@dataclass(frozen=True)
class DoctorRequest(StoredRequest):
    """Say what this machine can run, what is missing and how to get it; exits with 3 when no sweep can run.

    Example: rlplan doctor --deep
    """

    deep: bool = toggle("Also try torch, transformers and Ray, which takes up to a minute.")
