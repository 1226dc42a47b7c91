"""Which process drives a sweep, and whether the one that did is dead."""

import os
import socket
import uuid

from planner.store.driving import Driver
from planner.store.schema import Sweep


def this_driver() -> Driver:
    """Return this process as a driver; the id holds the time of its birth, since process numbers are used again."""
    import psutil  # noqa: PLC0415

    born = psutil.Process().create_time()
    return Driver(f"{uuid.uuid4().hex}@{born:.2f}", socket.gethostname(), os.getpid())


def is_dead(sweep: Sweep) -> bool:
    """Whether the sweep's driver is known to be gone: it ran on this machine, and no such process is there."""
    import psutil  # noqa: PLC0415

    if sweep.driver_id is None or sweep.driver_pid is None or sweep.driver_host != socket.gethostname():
        return False
    try:
        process = psutil.Process(sweep.driver_pid)
        ended = process.status() == psutil.STATUS_ZOMBIE
        return ended or f"{process.create_time():.2f}" != sweep.driver_id.rpartition("@")[2]
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
