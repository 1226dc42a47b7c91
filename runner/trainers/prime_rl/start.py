"""Starts prime-rl's launcher, which calls its parts by their names, and ends it when whoever started this is gone.

It is copied beside rl.json, and imports the standard library alone.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).absolute().parent
SECONDS_BETWEEN_LOOKS = 0.25
LOGS = ("inference.log", "trainer.log")  # of parts whose output the launcher does not show
SHOWN = 8000  # bytes of the end of each


def main() -> None:
    """Start it, and stay until it ends."""
    starter, former = os.getppid(), logs()
    folder = str(Path(sys.executable).parent)
    path = os.pathsep.join(filter(None, (str(FOLDER), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "PATH": os.pathsep.join((folder, os.environ.get("PATH", "")))}
    child = subprocess.Popen([sys.executable, "-m", *sys.argv[1:]], cwd=FOLDER, env=environment)
    for number in (signal.SIGTERM, signal.SIGABRT):
        signal.signal(number, lambda signal_number, _: child.send_signal(signal_number))
    while child.poll() is None:
        if os.getppid() != starter:
            child.terminate()  # on which it ends its parts
            sys.exit(1)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if child.returncode:
        show_ends(former)
    sys.exit(child.returncode if child.returncode >= 0 else 128 - child.returncode)


def logs() -> dict[Path, int]:
    """Return the logs of its parts, and when each was written last."""
    logs = sorted((FOLDER / "run" / "logs").rglob("*.log"))
    return {path: path.stat().st_mtime_ns for path in logs if path.name in LOGS}


def show_ends(former: dict[Path, int]) -> None:
    """Print how the parts of this start ended: why the trainer or vLLM did is in their own logs alone."""
    for path, written in logs().items():
        if former.get(path) != written:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - SHOWN))
                end = file.read().decode(errors="replace")
            print(f"{path}:", end, sep="\n", flush=True)  # noqa: T201  (it is where rlplan looks)


if __name__ == "__main__":
    main()
