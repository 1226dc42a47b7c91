"""The life of a trial, written once: its states and the moves between them."""

from enum import StrEnum

from budgets.errors import IllegalTransitionError


class TrialState(StrEnum):
    """Where a trial stands."""

    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    PRUNED = "pruned"
    FAILED = "failed"
    LOST = "lost"


S = TrialState

MOVES: dict[TrialState, frozenset[TrialState]] = {
    S.PLANNED: frozenset({S.RUNNING, S.PRUNED}),  # pruned here: it never started
    S.RUNNING: frozenset({S.PAUSED, S.FINISHED, S.PRUNED, S.FAILED, S.LOST}),
    S.PAUSED: frozenset({S.RUNNING, S.FINISHED, S.PRUNED}),
    S.FAILED: frozenset({S.PLANNED}),  # only by an explicit retry
    S.LOST: frozenset({S.PLANNED, S.PAUSED}),  # paused: it goes on from its checkpoint
    S.FINISHED: frozenset(),
    S.PRUNED: frozenset(),
}


def move(old: TrialState, new: TrialState) -> TrialState:
    """Return the new state, or raise IllegalTransitionError when it cannot be reached from the old one."""
    if new in MOVES[old]:
        return new
    allowed = ", ".join(sorted(MOVES[old])) or "nothing, it is a final state"
    raise IllegalTransitionError(f"a {old} trial cannot become {new}; from {old} it can become: {allowed}")
