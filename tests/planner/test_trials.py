import pytest

from budgets.errors import IllegalTransitionError
from planner.view import TrialState, move


def test_the_message_says_what_is_allowed() -> None:
    with pytest.raises(IllegalTransitionError, match="from lost it can become: paused, planned"):
        move(TrialState.LOST, TrialState.RUNNING)
    with pytest.raises(IllegalTransitionError, match="from pruned it can become: nothing, it is a final state"):
        move(TrialState.PRUNED, TrialState.RUNNING)
