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


def main() -> None:
    """Start it, and stay until it ends."""
    starter = os.getppid()
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(filter(None, (str(FOLDER), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "PATH": os.pathsep.join((own, os.environ.get("PATH", "")))}
    child = subprocess.Popen([sys.executable, "-m", *sys.argv[1:]], cwd=FOLDER, env=environment)
    for number in (signal.SIGTERM, signal.SIGABRT):
        signal.signal(number, lambda given, _: child.send_signal(given))
    while child.poll() is None:
        if os.getppid() != starter:
            child.terminate()  # on which it ends its parts
            sys.exit(1)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    sys.exit(child.returncode if child.returncode >= 0 else 128 - child.returncode)


if __name__ == "__main__":
    main()
