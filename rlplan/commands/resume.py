"""`rlplan resume` and `retry`: a sweep goes on here, by Slurm, or by its driver, whose pause ends."""

from functools import partial

from rlplan.actions import sweeping
from rlplan.actions.asking import Asked, let_go_on
from rlplan.actions.submitting import Submitted, submit_job
from rlplan.commands.ended import Ended
from rlplan.commands.sweep import for_slurm
from rlplan.live.sweep_running import followed
from rlplan.requests.running import ResumeRequest, RetryRequest

CHANGES = ("accept_changes", "add", "folder", "ray_address", "workers")  # that a driver which holds it cannot heed


def answer(asked: ResumeRequest | RetryRequest) -> Submitted | Asked | Ended:
    """Go on with a sweep."""
    if for_slurm(asked):
        return submit_job(asked)
    if isinstance(asked, ResumeRequest) and not asked.wait:
        flags = {f"--{name.replace('_', '-')}": getattr(asked, name) for name in CHANGES}
        if (heard := let_go_on(asked.db, asked.sweep, flags)) is not None:
            return heard
    return Ended(followed(partial(sweeping.go_on, asked), asked.db), asked.db)
