"""The process that copies a sweep to its tracker beside the driver, and the driver's end of it.

A tracker that hangs, fails or dies takes nothing of the sweep's with it: the driver waits for it nowhere, and at its
own end no longer than `LAST_SECONDS`. The process ends with the driver, however that comes.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from planner.config.cluster import TrackingSection
from planner.store import open_store
from runner.processes import search_path

LOG = "logs/tracking.log"
SECONDS_BETWEEN_LOOKS = 10.0
LONGEST_WAIT = 300.0  # between two tries with a tracker that is down
LAST_SECONDS = 30.0  # from the sweep's end


@contextmanager
def mirrored(
    tracking: TrackingSection | None, address: str, sweep: str, folder: Path, say: Callable[[str], None]
) -> Iterator[None]:
    """Have a sweep copied to its tracker meanwhile; `address` is the database's, `say` tells people what goes wrong."""
    if tracking is None or tracking.to is None:
        yield
        return
    settings = {"tracking": tracking.model_dump(), "sweep": sweep, "folder": str(folder)}
    command = [sys.executable, "-P", "-m", "runner.tracking.beside", json.dumps(settings)]
    with beside(command, address, folder / LOG, tracking.to, say):
        yield


@contextmanager
def beside(
    command: Sequence[str], address: str, log: Path, name: str, say: Callable[[str], None], last: float = LAST_SECONDS
) -> Iterator[None]:
    """Have a process run as long as the block does; what it prints is said, and its pipe's end is its sign to end."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "RLPLAN_DB": address, "PYTHONPATH": search_path()},
            start_new_session=True,  # Ctrl-C at the terminal is the driver's alone
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    reader = threading.Thread(target=_say_all, args=(process.stdout, say), daemon=True)
    reader.start()
    try:
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(last)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            say(f"{name} does not answer: what it has not had of the sweep stays in the database alone")
        process.kill()
        process.wait()
        reader.join(1.0)
        process.stdout.close()


def follow(copy: Callable[[], None], ending: threading.Event, name: str, say: Callable[[str], None]) -> None:
    """Copy every now and then, once more at the end; a tracker that is down is tried ever more rarely, said once."""
    wait, reported = SECONDS_BETWEEN_LOOKS, False
    while True:
        last = ending.is_set()
        try:
            copy()
            wait = SECONDS_BETWEEN_LOOKS
        except Exception as error:
            wait = min(2 * wait, LONGEST_WAIT)
            if not reported:
                first = (str(error).strip().splitlines() or [""])[0]
                say(f"{name} takes nothing ({type(error).__name__}: {first[:200]}): the sweep goes on without it")
            reported = True
        if last:
            return
        ending.wait(wait)


def main() -> None:
    """Copy a sweep until the driver's pipe ends."""
    from runner.tracking.loggers import open_logger  # noqa: PLC0415 (Ray's loggers are not for the driver's process)
    from runner.tracking.mirror import Mirror  # noqa: PLC0415

    settings = json.loads(sys.argv[1])
    section = TrackingSection.model_validate(settings["tracking"])
    words = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what a tracker prints goes to the log
    ending = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(ending,), daemon=True).start()
    with open_store(os.environ["RLPLAN_DB"], read_only=True) as store:
        mirror = Mirror(store, settings["sweep"], Path(settings["folder"]), partial(open_logger, section))
        follow(mirror.copy, ending, str(section.to), lambda text: print(text, file=words))
        with suppress(Exception):
            mirror.close()
    os._exit(0)  # whatever threads a tracker has left


def _say_all(lines: IO[str], say: Callable[[str], None]) -> None:
    for line in lines:
        say(line.strip())


def _wait_for_the_end(ending: threading.Event) -> None:
    sys.stdin.buffer.read()
    ending.set()
    timer = threading.Timer(LAST_SECONDS, os._exit, (1,))  # a driver that was killed does not do it
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
