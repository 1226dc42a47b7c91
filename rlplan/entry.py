"""Where the `rlplan` process begins: an interrupt ends it quietly, also while the command line is still loading."""

import atexit
import gc
import sys

from rlplan.exits import ExitCode

NEW_OBJECTS = 200_000  # between searches for garbage: at 700, as Python has it, they took a tenth of a plan's time


def main() -> None:
    """Run the command line."""
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)  # or Python would search everything once more as it ends
    try:
        from rlplan.cli import app  # noqa: PLC0415

        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that knows no '×' still gets its table
        app()
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
