"""What the driver, its child and the workers say to each other: dictionaries, pickled one after the other."""

import os
import pickle
import secrets
from dataclasses import dataclass, field
from typing import IO, Any

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RayStart:
    """How a Ray process is to be started, and what all workers of its run have in common."""

    folder: str  # of the sweep
    tag: str  # of the sweep
    address: str | None  # of a cluster; None starts one here
    cpus: int  # of a cluster that is started here
    gpus: int | None  # None: as many as there are
    alone: bool = False  # whether a trial has all of this machine's GPUs
    runtime_env: dict[str, Any] = field(default_factory=dict)  # Ray's, of all that is started there
    driver: str = field(default_factory=lambda: secrets.token_hex(8))  # a name of its own, for what it starts
    directory: str = field(default_factory=os.getcwd)  # what relative paths in a configuration are relative to
    temporary: str = ""  # for what Ray writes


def write(stream: IO[bytes], message: object) -> None:
    """Write a message, and see that it leaves."""
    stream.write(pickle.dumps(message))  # whole or not at all
    stream.flush()
