"""Writes docs/commands.md: every command with what its `--help` says."""

import argparse
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from rlplan.cli import app

PAGE = Path(__file__).parents[1] / "commands.md"
TERMINAL = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": None}

HEAD = """\
# Commands

Every command, as `rlplan COMMAND --help` prints it. `make docs` writes this page anew; do not edit it by hand.

What all of them share:

- A command that prints data takes `--format table|json|csv`. JSON is one document on stdout; progress, logs and
  warnings go to stderr. A table fits the terminal and can be piped.
- `--db`, or `RLPLAN_DB`, is the results database: a path or an SQLAlchemy URL, `rlplan.db` in the working directory
  without it. Give a URL with a password in `RLPLAN_DB`: others see arguments, and printed commands leave it out.
- A plan or sweep that is not named is the newest one.
- Exit codes: 0 done; 2 bad input or usage; 3 not found (also a file to read), or nothing to do; 4 the budget does not
  suffice; 5 finished with failed trials, or a warning of `watch` or `check`; 130 interrupted, and the state is saved; 1
  a bug of rlplan's.
- An error is one or two lines; `--debug`, anywhere on the line, shows the traceback.
"""


def page() -> str:
    """Return the page's text."""
    group: Any = get_command(app)
    commands = ((name, _help(name)) for name in group.list_commands(None))
    return HEAD + "".join(f"\n## rlplan {name}\n\n```text\n{text}\n```\n" for name, text in commands)


def _help(name: str) -> str:
    printed = CliRunner().invoke(app, [name, "--help"], env=TERMINAL).stdout
    return "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
