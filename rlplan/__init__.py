"""Plans the compute of RL post-training: the Python API, and in `rlplan.cli` the command line.

Names are imported when they are first used, so that `import rlplan` costs next to nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgets.errors import BudgetError as BudgetError
    from budgets.errors import CheckpointError as CheckpointError
    from budgets.errors import ClusterLostError as ClusterLostError
    from budgets.errors import ConfigError as ConfigError
    from budgets.errors import InfeasibleError as InfeasibleError
    from budgets.errors import InputError as InputError
    from budgets.errors import NotFoundError as NotFoundError
    from budgets.errors import RlplanError as RlplanError
    from budgets.errors import StoreError as StoreError
    from budgets.errors import StoreUnavailableError as StoreUnavailableError
    from budgets.errors import TrainingError as TrainingError
    from budgets.errors import UnknownNameError as UnknownNameError
    from planner.metrics import Interval as Interval
    from rlplan.actions.fitting import Fit as Fit
    from rlplan.actions.fitting import Fits as Fits
    from rlplan.actions.law_fitting import FittedLaws as FittedLaws
    from rlplan.actions.law_fitting import LawFit as LawFit
    from rlplan.actions.law_fitting import RecipeComparison as RecipeComparison
    from rlplan.answers.plan import Candidate as Candidate
    from rlplan.answers.plan import Plan as Plan
    from rlplan.answers.recommend import Answer as Answer
    from rlplan.answers.replay import Replay as Replay
    from rlplan.api.book import Book as Book
    from rlplan.api.book import open as open
    from rlplan.api.functions import adopt as adopt
    from rlplan.api.functions import check as check
    from rlplan.api.functions import compare as compare
    from rlplan.api.functions import fit as fit
    from rlplan.api.functions import fits as fits
    from rlplan.api.functions import forget_prices as forget_prices
    from rlplan.api.functions import preview as preview
    from rlplan.api.functions import price as price
    from rlplan.api.functions import propose as propose
    from rlplan.api.functions import replay as replay
    from rlplan.api.functions import watch as watch
    from rlplan.api.running import launch as launch
    from rlplan.api.running import resume as resume
    from rlplan.api.running import retry as retry
    from rlplan.api.running import run as run
    from rlplan.api.running import train as train
    from rlplan.api.sweep import Sweep as Sweep

    __version__: str

_ERRORS = (
    "BudgetError",
    "CheckpointError",
    "ClusterLostError",
    "ConfigError",
    "InfeasibleError",
    "InputError",
    "NotFoundError",
    "RlplanError",
    "StoreError",
    "StoreUnavailableError",
    "TrainingError",
    "UnknownNameError",
)
# Where each name is defined.
_HOMES = dict.fromkeys(_ERRORS, "budgets.errors") | {
    "Answer": "rlplan.answers.recommend",
    "Book": "rlplan.api.book",
    "Candidate": "rlplan.answers.plan",
    "Fit": "rlplan.actions.fitting",
    "Fits": "rlplan.actions.fitting",
    "FittedLaws": "rlplan.actions.law_fitting",
    "LawFit": "rlplan.actions.law_fitting",
    "RecipeComparison": "rlplan.actions.law_fitting",
    "Interval": "planner.metrics",
    "Plan": "rlplan.answers.plan",
    "Replay": "rlplan.answers.replay",
    "Sweep": "rlplan.api.sweep",
    "adopt": "rlplan.api.functions",
    "check": "rlplan.api.functions",
    "compare": "rlplan.api.functions",
    "fit": "rlplan.api.functions",
    "fits": "rlplan.api.functions",
    "forget_prices": "rlplan.api.functions",
    "launch": "rlplan.api.running",
    "open": "rlplan.api.book",
    "preview": "rlplan.api.functions",
    "price": "rlplan.api.functions",
    "propose": "rlplan.api.functions",
    "replay": "rlplan.api.functions",
    "resume": "rlplan.api.running",
    "retry": "rlplan.api.running",
    "run": "rlplan.api.running",
    "train": "rlplan.api.running",
    "watch": "rlplan.api.functions",
}


if not TYPE_CHECKING:  # a type checker that saw this would take every name for one of ours

    def __getattr__(name: str) -> Any:
        """Import a public name the first time that it is used."""
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415

            return version("rlplan")
        if name not in _HOMES:
            raise AttributeError(f"module 'rlplan' has no attribute '{name}'")
        from importlib import import_module  # noqa: PLC0415

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names, whether they were used already or not."""
    return sorted({*globals(), *_HOMES, "__version__"})
