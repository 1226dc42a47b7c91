"""The state that a list of configurations shows for each of them."""

from collections.abc import Iterable

from planner.trials import TrialState
from planner.view import TrialView

PROPOSED = "proposed"  # the status of a configuration that has no trial

# The order in which the states of several seeds speak for their cell.
STATUS = (
    TrialState.RUNNING,
    TrialState.PAUSED,
    TrialState.FINISHED,
    TrialState.PLANNED,
    TrialState.FAILED,
    TrialState.LOST,
    TrialState.PRUNED,
)


def status_of(trials: Iterable[TrialView]) -> str:
    """Return the state that speaks for a configuration; one without a trial is proposed."""
    states = {trial.state for trial in trials}
    return next((str(state) for state in STATUS if state in states), PROPOSED)
