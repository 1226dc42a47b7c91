"""A plan's share of pilots in words: what they add, and where another share adds more."""

from budgets.cost import Z90
from planner.proposals import PilotShare
from planner.proposals.sharing import ALIKE
from rlplan.wording.numbers import difference, hours, share


def warned_of_pilots(sharing: PilotShare, budget_gpu_hours: float) -> str:
    """Say that the budget pays for no pilot, or that another share is expected to do better; else nothing."""
    if not sharing.best_fraction and not sharing.given:
        return f"At {hours(budget_gpu_hours)} GPU-hours pilots cost more than they gain."
    if not better_share(sharing):
        return ""
    short, error = sharing.best_score - sharing.expected_score, Z90 * sharing.error
    given = (
        f"{share(sharing.fraction)} of the budget is given to pilots" if sharing.fraction else "No pilots are asked for"
    )
    best = f"{share(sharing.best_fraction)} for pilots" if sharing.best_fraction else "no pilots"
    return (
        f"{given}. With {best} the final run should end {difference(short, error)}: "
        f"--pilot-fraction {sharing.best_fraction:g}."
    )


def better_share(sharing: PilotShare) -> bool:
    """Whether another share than the given one is expected to do better, beyond its error."""
    return sharing.best_score - sharing.expected_score > max(ALIKE, Z90 * sharing.error)


def gain_of_pilots(sharing: PilotShare) -> str:
    """Write what the pilots add to the final run's score, their cost taken off, with its error.

    Not counted are a learning rate or a recipe that fails, and the price of a step.
    """
    gain, error = sharing.expected_gain, Z90 * sharing.error
    if abs(gain) <= max(ALIKE, error):
        return "Gain in the final score: too small to measure"
    return f"{'Gain' if gain > 0 else 'Loss'} in the final score: {abs(gain):.2g} (± {error:.2g})"
