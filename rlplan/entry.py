"""Where the `rlplan` process begins: an interrupt ends it quietly, also while the command line is still loading."""

import sys

from rlplan.exits import ExitCode


def main() -> None:
    """Run the command line."""
    try:
        from rlplan.cli import app  # noqa: PLC0415

        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that knows no '×' still gets its table
        app()
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
