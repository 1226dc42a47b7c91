"""`rlplan pause`, `stop` and the end of a pause: what a running sweep was asked, and whether it has heard."""

from collections.abc import Iterator

from planner.store.schema import RequestKind
from rlplan.actions.asking import Asked, ask
from rlplan.requests.running import PauseRequest
from rlplan.wording.draw import Canvas, Invocation, Part, next_steps


def answer(asked: PauseRequest) -> Asked:
    """Ask it."""
    return ask(asked.db, asked.sweep, RequestKind(asked.KIND))


def parts(found: Asked, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Say what happens now, and what to do next."""
    state, next_verb, does = _outcome(found)
    yield from canvas.lines(f"{found.sweep} {state}.")
    yield from next_steps([invocation.step(next_verb, found.sweep, does)], canvas)


def _outcome(asked: Asked) -> tuple[str, str, str]:
    """Return what happens, and the command that comes next with what it does."""
    if asked.taken_at is None:
        return f"was asked to {asked.kind}; its driver has not answered yet", "status", "shows whether it has"
    match asked.kind:
        case RequestKind.PAUSE:
            state = (
                "is paused: segments under way end normally, and no new one starts. Workers without one are ended, so "
                "the pause costs no GPU-hours"
            )
            return state, "resume", "goes on with it"
        case RequestKind.RESUME:
            return "goes on", "status --watch", "follows it"
        case _:
            return "stops when each trial has ended the update under way and is saved", "resume", "goes on with it"
