# mypy: disable-error-code=misc
"""The Trainable behind which a worker sits; it is imported in Ray's processes alone, so it imports Ray outright."""

import json
from typing import Any

from ray.tune import PlacementGroupFactory, Trainable

from runner.sweep.on_ray.seat import Seat

MESSAGES = "messages"

_seats: list[Seat] = []


class Lease(Trainable):
    """One lease: segments of one trial, one after the other, on one worker.

    Each call of `step` waits for news of the worker and hands them over; the training does not wait for the calls.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """Return what the lease occupies: the first bundle is the worker's, the others those of processes it starts."""
        return PlacementGroupFactory(config["bundles"])

    def setup(self, config: dict[str, Any]) -> None:
        """Sit down in this process, where a lease may have been served before."""
        if not _seats:
            _seats.append(Seat(config))
        _seats[0].begin(config["lease"])

    def step(self) -> dict[str, Any]:
        """Return what has happened; done once the lease is over."""
        messages = _seats[0].news()
        # One string, because Tune copies and flattens whatever else is in a result.
        return {MESSAGES: json.dumps(messages), "done": messages[-1]["event"] == "over"}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Serve another lease in the same process, where everything is imported already."""
        _seats[0].begin(new_config["lease"])
        return True

    def cleanup(self) -> None:
        """Leave; the process ends after this."""
        _seats[0].end()
