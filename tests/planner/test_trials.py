import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import IllegalTransitionError
from planner.trials import TrialState, move

LEGAL = {
    ("planned", "running"),
    ("planned", "pruned"),
    ("running", "paused"),
    ("running", "finished"),
    ("running", "pruned"),
    ("running", "failed"),
    ("running", "lost"),
    ("paused", "running"),
    ("paused", "finished"),
    ("paused", "pruned"),
    ("failed", "planned"),
    ("lost", "planned"),
    ("lost", "paused"),
}


@given(st.sampled_from(TrialState), st.sampled_from(TrialState))
def test_exactly_the_legal_moves_are_made(old: TrialState, new: TrialState) -> None:
    if (old, new) in LEGAL:
        assert move(old, new) is new
    else:
        with pytest.raises(IllegalTransitionError, match=f"a {old} trial cannot become {new}"):
            move(old, new)


def test_the_message_says_what_is_allowed() -> None:
    with pytest.raises(IllegalTransitionError, match="from lost it can become: paused, planned"):
        move(TrialState.LOST, TrialState.RUNNING)
    with pytest.raises(IllegalTransitionError, match="from pruned it can become: nothing, it is a final state"):
        move(TrialState.PRUNED, TrialState.RUNNING)
