"""`rlplan pause`, `stop` and the end of a pause: what a running sweep was asked, and whether it has heard."""

from collections.abc import Iterator

from planner.store.schema import RequestKind
from rlplan.actions.asking import Asked, ask
from rlplan.requests.running import PauseRequest
from rlplan.wording.console import Part
from rlplan.wording.next_steps import Invocation, command
from rlplan.wording.terminal import Canvas


def answer(asked: PauseRequest) -> Asked:
    """Ask it."""
    return ask(asked.db, asked.sweep, RequestKind(asked.KIND))


def parts(found: Asked, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Say what happens now, and what to do next."""
    yield from canvas.lines(_said(found, invocation.database))


def _said(asked: Asked, database: str) -> str:
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
