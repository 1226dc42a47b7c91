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
    from rlplan.api.functions import adopt as adopt
    from rlplan.api.functions import check as check
    from rlplan.api.functions import compare as compare
    from rlplan.api.functions import fit as fit
    from rlplan.api.functions import fits as fits
    from rlplan.api.functions import forget_prices as forget_prices
    from rlplan.api.functions import launch as launch
    from rlplan.api.functions import preview as preview
    from rlplan.api.functions import price as price
    from rlplan.api.functions import propose as propose
    from rlplan.api.functions import replay as replay
    from rlplan.api.functions import resume as resume
    from rlplan.api.functions import retry as retry
    from rlplan.api.functions import run as run
    from rlplan.api.functions import watch as watch
    from rlplan.api.results import Book as Book
    from rlplan.api.results import Sweep as Sweep
    from rlplan.api.results import open as open
    from rlplan.commands.compare import RecipeComparison as RecipeComparison
    from rlplan.commands.fit_curves import Fit as Fit
    from rlplan.commands.fit_curves import Fits as Fits
    from rlplan.commands.fit_law import FittedLaws as FittedLaws
    from rlplan.commands.fit_law import LawFit as LawFit
    from rlplan.commands.plan import Candidate as Candidate
    from rlplan.commands.plan import Plan as Plan
    from rlplan.commands.recommend import Answer as Answer
    from rlplan.commands.replay import Replay as Replay

    __version__: str

# Where each name is defined.
_NAMES = {
    "budgets.errors": """
        BudgetError CheckpointError ClusterLostError ConfigError InfeasibleError InputError NotFoundError RlplanError
        StoreError StoreUnavailableError TrainingError UnknownNameError
    """,
    "planner.metrics": "Interval",
    "rlplan.commands.fit_curves": "Fit Fits",
    "rlplan.commands.compare": "RecipeComparison",
    "rlplan.commands.fit_law": "FittedLaws LawFit",
    "rlplan.commands.plan": "Candidate Plan",
    "rlplan.commands.recommend": "Answer",
    "rlplan.commands.replay": "Replay",
    "rlplan.api.functions": """
        adopt check compare fit fits forget_prices launch preview price propose replay resume retry run watch
    """,
    "rlplan.api.results": "Book Sweep open",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


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
