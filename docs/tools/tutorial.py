"""Plays docs/tutorial.md: types the commands of its consoles one after the other, as a reader would.

`python docs/tools/tutorial.py` writes what they print into the page; a test compares the two.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
CONSOLE = re.compile(r"^```console\n\$ (.*?)\n```$", re.DOTALL | re.MULTILINE)
INTERRUPT = "^C"  # a console that ends with it is interrupted as soon as a first score is there
SCORED = re.compile(r" step \d+: score ")
CUT = "…"  # a console that ends with it shows as many lines as are there, and no more


@dataclass(frozen=True, slots=True)
class Step:
    """One console of the page: what is typed, what it shows, what came of it."""

    typed: str
    shown: str
    printed: str
    code: int
    errors: str


def consoles() -> list[tuple[str, str]]:
    """Return what is typed in each console of the page, and what it shows."""
    return [_parted(block[1]) for block in CONSOLE.finditer(PAGE.read_text("utf-8"))]


def _parted(text: str) -> tuple[str, str]:
    """Part what is typed from what is shown; a backslash goes on with what is typed."""
    typed, _, shown = text.partition("\n")
    while typed.endswith("\\"):
        more, _, shown = shown.partition("\n")
        typed = typed.removesuffix("\\") + more
    return " ".join(typed.split()), shown


def play(folder: Path) -> Iterator[Step]:
    """Type everything in an empty folder, which sees the repository's tables of real runs."""
    (folder / "bench").symlink_to(ROOT / "bench")
    for typed, shown in consoles():
        if shown.endswith(INTERRUPT):
            yield _interrupted(typed, shown, folder)
        else:
            done = subprocess.run(["bash", "-c", typed], **_terminal(folder), capture_output=True, check=False)
            yield Step(typed, shown, done.stdout, done.returncode, done.stderr)


def _interrupted(typed: str, shown: str, folder: Path) -> Step:
    said: list[str] = []
    words, pipe = shlex.split(typed), subprocess.PIPE
    with subprocess.Popen(words, **_terminal(folder), stdout=pipe, stderr=pipe) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for line in running.stderr:
            if SCORED.search(line) and not any(SCORED.search(before) for before in said):
                running.send_signal(signal.SIGINT)
            said.append(line)
        printed = running.stdout.read()
    return Step(typed, shown, printed, running.returncode, "".join(said))


def _terminal(folder: Path) -> dict[str, Any]:
    """Return the surroundings of a command: this Python's programs, 80 columns, no colours."""
    hidden = {"RLPLAN_DB", "RLPLAN_DEBUG", "FORCE_COLOR"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1"}
    return {"cwd": folder, "env": env, "text": True}


def written(step: Step) -> str:
    """Return what the page should show of a step: as much as it does."""
    lines = step.printed.rstrip().splitlines()
    if not step.shown or step.shown.endswith(INTERRUPT):
        return step.shown
    if step.shown.endswith(CUT):
        lines = [*lines[: len(step.shown.splitlines()) - 1], CUT]
    return "\n".join(line.rstrip() for line in lines)


def main() -> None:
    """Play the page, and write what was printed into it."""
    with tempfile.TemporaryDirectory() as folder:
        steps = list(play(Path(folder)))
    failed = [f"{step.typed}: {step.code}\n{step.errors}" for step in steps if step.code not in (0, 130)]
    if failed:
        sys.exit("\n".join(failed))
    outputs = iter(steps)

    def shown_anew(console: re.Match[str]) -> str:
        step = next(outputs)
        if not step.shown:
            return console[0]
        return console[0].replace(step.shown, written(step))

    PAGE.write_text(CONSOLE.sub(shown_anew, PAGE.read_text("utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
