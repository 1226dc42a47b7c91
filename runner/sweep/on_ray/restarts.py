"""When Ray is started again after it was lost, and when not any more."""

from budgets.errors import ClusterLostError, InputError, RlplanError
from runner.sweep.on_ray.session import CLIENT

MOST_RESTARTS = 5  # in a row without a segment that ended
MOST_JOINS = 3  # of a cluster that answers, but is too busy to start what it needs for a client
_TOO_BUSY = "Starting Ray client server failed"  # Ray's own words for that, after half a minute
_CLIENT_GRACE = 12.0  # seconds: a cluster keeps what a client has started for 10 s after the client has died


class Restarts:
    """Counts losses, and lets waits between restarts grow."""

    def __init__(self, address: str | None) -> None:
        """The address is that of the cluster to join, if it is not started here."""
        self._address = address
        self._grace = _CLIENT_GRACE if address is not None and address.startswith(CLIENT) else 0.0
        self._losses = 0
        self._was_ready = False
        self._due_at: float | None = None
        self._error: RlplanError | None = None

    @property
    def pending(self) -> bool:
        """Whether Ray is to be started again, now or later."""
        return self._due_at is not None

    def check(self) -> None:
        """Raise the error that keeps Ray from being started again, if there is one."""
        if self._error is not None:
            raise self._error

    def ready(self) -> None:
        """Note that Ray has been there."""
        self._was_ready = True

    def worked(self) -> None:
        """Note that a segment has ended: the losses before it count no longer."""
        self._losses = 0

    def lost(self, reason: str, now: float) -> None:
        """Note that Ray was lost."""
        self._losses += 1
        again = self._grace > 0 and _TOO_BUSY in reason and self._losses < MOST_JOINS
        if not self._was_ready and self._address is not None and not again:
            self._error = InputError(f"no cluster can be joined at '{self._address}': {reason}")
        elif self._losses > MOST_RESTARTS:
            self._error = ClusterLostError(
                f"Ray was lost {self._losses} times without a segment that ended in between, last because {reason}. "
                "What was trained is saved: repair what stops Ray, then go on with `rlplan resume`"
            )
        else:
            self._due_at = now + self._grace + (2.0 ** (self._losses - 2) if self._losses > 1 else 0.0)

    def due(self, now: float) -> bool:
        """Whether Ray is to be started again now; it is asked no more after it has said so."""
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True
