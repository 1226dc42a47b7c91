"""Where the `rlplan` process begins: an interrupt ends it quietly, also while the command line is still loading."""

import atexit
import gc
import os
import sys

from rlplan.exits import ExitCode

NEW_OBJECTS = 200_000  # between searches for garbage: at 700, as Python has it, they took a tenth of a plan's time


def main() -> None:
    """Run the command line."""
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)  # or Python would search everything once more as it ends
    _fill_standard_streams()
    for name in ("COLUMNS", "LINES"):  # 0 is what some containers say of a terminal that they do not have
        if not os.environ.get(name, "1").strip("0"):
            del os.environ[name]
    try:
        from rlplan.cli import app  # noqa: PLC0415

        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that knows no '×' still gets its table
        app()
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def confined() -> None:
    """Run the command line after a folder and a database, with what these allow an agent."""
    from rlplan.agents.confinement import confine  # noqa: PLC0415

    folder, database = sys.argv[1:3]
    del sys.argv[1:3]
    confine(folder, database)
    main()


def _fill_standard_streams() -> None:
    """Open /dev/null for each standard stream that was closed; else a database would get its number."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
