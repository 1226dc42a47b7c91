"""Prints what a sweep was asked for, and what that means."""

from planner.store.schema import RequestKind
from rlplan.actions.asking import Asked
from rlplan.printing.sweep_output import command
from rlplan.wording.console import print_csv, print_drawn, print_json
from rlplan.wording.formats import Format


def print_asked(asked: Asked, database: str, format: Format) -> int:
    """Print a request as it stands; return the exit code."""
    row = {
        "sweep": asked.sweep,
        "kind": asked.kind.value,
        "by": asked.by,
        "at": asked.at.isoformat(),
        "taken_at": None if asked.taken_at is None else asked.taken_at.isoformat(),
    }
    if format is Format.JSON:
        print_json(row)
    elif format is Format.CSV:
        print_csv(list(row), [row])
    else:
        print_drawn(lambda canvas: canvas.lines(sentence(asked, database)))
    return 0


def sentence(asked: Asked, database: str) -> str:
    """Say what happens now, and what to do next."""
    go_on = f"go on with `{command('resume', asked.sweep, database)}`"
    status = f"`{command('status', asked.sweep, database)}` shows it"
    if asked.taken_at is None:
        return f"{asked.sweep} was asked to {asked.kind}; its driver has not answered yet: {status}"
    match asked.kind:
        case RequestKind.PAUSE:
            return (
                f"{asked.sweep} is paused: segments under way end normally, no new one starts, and workers without one "
                f"are ended, so that the pause costs no GPU-hours; {go_on}"
            )
        case RequestKind.RESUME:
            return f"{asked.sweep} goes on: {status}"
        case _:
            return f"{asked.sweep} stops when each trial has ended the update under way and is saved; {go_on}"
