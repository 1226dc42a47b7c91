"""Writes docs/commands.md: every command with what its `--help` says."""

import argparse
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from rlplan.cli import app

PAGE = Path(__file__).parents[1] / "commands.md"
SHARED = ("--db", "--format", "--explain", "--config")  # described once, at the head of the page
OFTEN = 3  # commands with the same flag, from which on it is described once

HEAD = """\
# Commands

What `rlplan COMMAND --help` says of every command. `make docs` writes this page anew; do not edit it by hand.

What all of them share:

- `--format table|json|csv` says how a result is printed. JSON is one document on stdout; progress, logs and warnings
  go to stderr. A table fits the terminal and can be piped.
- `--db`, or `RLPLAN_DB`, is the results database: a path or an SQLAlchemy URL, `rlplan.db` in the working directory
  without it. Give a URL with a password in `RLPLAN_DB`: others see arguments, and printed commands leave it out.
- `--explain` prints the whole answer: what it rests on, and all of its lines.
- `--config` is a configuration file; `./rlplan.toml` is read without it.
- A plan or sweep that is not named is the newest one.
- Exit codes: 0 done; 2 bad input or usage; 3 not found (also a file to read), or nothing to do; 4 the budget does not
  suffice; 5 finished with failed trials, or a warning of `watch` or `check`; 130 interrupted, and the state is saved; 1
  a bug of rlplan's.
- An error is one or two lines; `--debug`, anywhere on the line, shows the traceback.
"""


def page() -> str:
    """Return the page's text."""
    group: Any = get_command(app)
    commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    counts = Counter(_line(flag) for command in commands.values() for flag in _flags(command))
    common = [line for line, count in counts.items() if count >= OFTEN]
    sections = ("\n".join(_section(name, command, common)) + "\n" for name, command in commands.items())
    return HEAD + "\n## Flags of several commands\n\n" + "\n".join(common) + "\n" + "".join(sections)


def _section(name: str, command: Any, common: Collection[str]) -> Iterator[str]:
    """Yield the lines of a command: what it does, an example, its arguments and flags, and the names of shared ones."""
    summary, _, example = (command.help or "").partition("Example:")
    yield f"\n## rlplan {name}\n"
    yield " ".join(summary.split()) + "\n"
    if example:
        yield f"```text\n{' '.join(example.split())}\n```\n"
    shared = [flag for flag in _flags(command) if _line(flag) in common]
    for parameter in _shown(command):
        if parameter.opts[0] not in SHARED and parameter not in shared:
            yield _line(parameter)
    general = [parameter for parameter in _shown(command) if parameter.opts[0] in SHARED]
    if shared or general:
        yield f"- Shared: {', '.join(f'`{flag.opts[0]}`' for flag in (*shared, *general))}."


def _shown(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]


def _flags(command: Any) -> list[Any]:
    """Return the flags of a command that the head of the page does not describe."""
    options = [parameter for parameter in _shown(command) if parameter.param_type_name == "option"]
    return [option for option in options if option.opts[0] not in SHARED]


def _line(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    value = f" {parameter.metavar}" if parameter.metavar and parameter.param_type_name == "option" else ""
    required = " Required." if parameter.required else ""
    default = parameter.default if not callable(parameter.default) else None
    shown = f" Default: {default}." if default not in (None, False, True, "", ()) else ""
    return f"- `{names}{value}`: {parameter.help or ''}{required}{shown}"


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
