"""`rlplan pause`, `stop` and the end of a pause: what a running sweep was asked, and whether it has heard."""

from collections.abc import Iterator

from planner.store.schema import RequestKind
from rlplan.actions.asking import Asked, ask
from rlplan.requests.running import PauseRequest
from rlplan.wording.draw import Canvas, Invocation, Part, next_steps


def answer(asked: PauseRequest) -> Asked:
    """Ask it."""
    return ask(asked.db, asked.sweep, RequestKind(asked.KIND))


def parts(asked: Asked, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Say what happens now, and what to do next."""
    verb, does = "resume", "goes on with it"
    if asked.taken_at is None:
        state = f"was asked to {asked.kind}; its driver has not answered yet"
        verb, does = "status", "shows whether it has"
    elif asked.kind is RequestKind.PAUSE:
        state = (
            "is paused: segments under way end normally, and no new one starts. Workers without one are ended, so "
            "the pause costs no GPU-hours"
        )
    elif asked.kind is RequestKind.RESUME:
        state, verb, does = "goes on", "status --watch", "follows it"
    else:
        state = "stops when each trial has ended the update under way and is saved"
    yield from canvas.lines(f"{asked.sweep} {state}.")
    yield from next_steps([invocation.step(verb, asked.sweep, does)], canvas)
