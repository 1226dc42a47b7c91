"""What is said of a plan's share of pilots: what they are worth, and where another share is worth more."""

from budgets.cost import Z90
from planner.proposals import Sharing
from planner.proposals.sharing import ALIKE
from rlplan.wording.numbers import hours

NOT_COUNTED = "what they find of a learning rate or a recipe that fails, and of the price, comes on top"


def warned_of_pilots(sharing: Sharing, budget_gpu_hours: float) -> str:
    """Say that the budget pays for no pilot, or that another share is expected to do better; else nothing."""
    if not sharing.best_fraction and not sharing.given:
        return f"At {hours(budget_gpu_hours)} GPU-hours a pilot costs more than it shows: the first row is run unseen."
    short = sharing.best_score - sharing.expected_score
    if short > ALIKE:
        return (
            f"With {_share(sharing.fraction)} for pilots the final run is expected to end {short:.3f} lower than with "
            f"{_share(sharing.best_fraction)} (--pilot-fraction {sharing.best_fraction:g})."
        )
    if sharing.fraction and sharing.expected_gain < -ALIKE:
        return (
            f"At {hours(budget_gpu_hours)} GPU-hours the pilots cost more than they tell of the rows: the final run is "
            f"expected to end {-sharing.expected_gain:.3f} lower; {NOT_COUNTED}."
        )
    return ""


def said_of_pilots(sharing: Sharing) -> str:
    """Say what the pilots are worth, with its error, and what they cost the final run."""
    worth, cost = sharing.worth, sharing.worth - sharing.expected_gain
    return (
        f"what they tell of the rows is worth {worth:.3f} ± {Z90 * sharing.error:.3f} of the final score, and "
        f"costs {max(0.0, cost):.3f}; {NOT_COUNTED}"
    )


def _share(fraction: float) -> str:
    return f"{fraction:.3g} of the budget" if fraction else "nothing"
