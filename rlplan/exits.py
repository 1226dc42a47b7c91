"""Exit codes, and how an error reaches the person at the terminal."""

from enum import IntEnum
from importlib.util import find_spec

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


EXTRAS = {
    "sweep": ("ray", "torch", "transformers", "safetensors", "math_verify", "optuna"),
    "dashboard": ("fastapi", "uvicorn"),
    "tensorboard": ("tensorboard",),
    "mcp": ("mcp", "mcp_types", "anyio", "jsonschema"),
}


def extra_with(module: str | None) -> str | None:
    """Say what to install for a module that is missing; None of one that no extra has."""
    from planner.config.cluster import TRACKERS  # noqa: PLC0415 (of what is missing alone: it takes a while)

    package = (module or "").partition(".")[0]
    known = EXTRAS | {"tracking": tuple(TRACKERS.values())}
    extra = next((name for name, packages in known.items() if package in packages), None)
    return extra and f"this needs {package}, which is not installed: pip install 'rlplan[{extra}]'"


def require_for_sweeps() -> None:
    """Refuse a sweep before anything of it is stored where the packages of its extra are missing."""
    if find_spec("ray") is None:
        raise InputError(str(extra_with("ray")))


def require_tracker(name: str) -> None:
    """Refuse a sweep whose tracker is not installed here; another machine that goes on with it may lack it."""
    from planner.config.cluster import TRACKERS  # noqa: PLC0415

    if find_spec(TRACKERS[name]) is None:
        raise InputError(f"[tracking] to = '{name}': {extra_with(TRACKERS[name])}")
