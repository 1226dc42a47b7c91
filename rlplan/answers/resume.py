"""`rlplan resume` and `retry`: a sweep goes on here, by Slurm, or by its driver, whose pause ends."""

from functools import partial
from typing import Any

from rlplan.actions import sweeping
from rlplan.actions.asking import Asked, let_go_on
from rlplan.actions.submitting import Submitted, submit_stored
from rlplan.answers.ended import Ended
from rlplan.answers.sweep import for_slurm
from rlplan.live.sweep_running import followed
from rlplan.requests.running import ResumeRequest, RetryRequest

CHANGES = ("accept_changes", "folder", "ray_address", "workers")


def answer(asked: ResumeRequest | RetryRequest) -> Submitted | Asked | Ended:
    """Go on with a sweep."""
    changes: dict[str, Any] = {name: getattr(asked, name) for name in CHANGES}
    again = isinstance(asked, RetryRequest)
    trials = tuple(asked.trial or ()) if isinstance(asked, RetryRequest) else ()
    if for_slurm(asked):
        del changes["ray_address"]
        changes |= {"sbatch": asked.sbatch or (), "write_only": asked.dry_run, "again": trials if again else None}
        return submit_stored(asked.sweep, asked.db, **changes)
    if isinstance(asked, RetryRequest):
        run = partial(sweeping.retry, asked.sweep, asked.db, trials=trials, **changes)
    elif asked.wait:
        run = partial(sweeping.resume, asked.sweep, asked.db, wait=asked.wait, **changes)
    else:
        flags = {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
        if (heard := let_go_on(asked.db, asked.sweep, flags)) is not None:
            return heard
        run = partial(sweeping.resume, asked.sweep, asked.db, **changes)
    return Ended(followed(run, asked.db), asked.db)
