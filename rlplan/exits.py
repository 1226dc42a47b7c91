"""Exit codes, and how an error reaches the person at the terminal."""

from enum import IntEnum

from budgets.errors import (
    BudgetError,
    CheckpointError,
    ClusterLostError,
    InputError,
    NotFoundError,
    RlplanError,
    StoreError,
    TrainingError,
)


class ExitCode(IntEnum):
    """What a command's exit status means."""

    DONE = 0
    OUR_BUG = 1
    BAD_INPUT = 2
    NOT_FOUND = 3
    BUDGET_TOO_SMALL = 4
    FINISHED_WITH_FAILURES = 5
    INTERRUPTED = 130


_BY_ERROR = (
    (NotFoundError, ExitCode.NOT_FOUND),  # a missing file too, which is bad input besides
    (InputError, ExitCode.BAD_INPUT),
    (StoreError, ExitCode.BAD_INPUT),
    (CheckpointError, ExitCode.BAD_INPUT),
    (BudgetError, ExitCode.BUDGET_TOO_SMALL),
    (ClusterLostError, ExitCode.INTERRUPTED),
    (TrainingError, ExitCode.FINISHED_WITH_FAILURES),
)


def exit_code(error: RlplanError) -> ExitCode:
    """Return the exit code of an error that we raise on purpose."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.OUR_BUG)
