"""What is said of a plan's share of pilots, before all else where they are not expected to pay."""

from planner.proposals import Sharing
from planner.proposals.request import LEAST_GAIN
from rlplan.wording.numbers import hours


def warned_of_pilots(sharing: Sharing, budget_gpu_hours: float) -> str:
    """Say that the pilots are not expected to pay, and when they would; nothing where they are expected to."""
    best = sharing.best_score - sharing.score_without
    if sharing.fraction and sharing.pays:
        return ""
    if sharing.best_pays:  # another share would
        return (
            f"{_share(sharing.fraction)} for pilots {_ends(sharing.expected_gain)}; {_share(sharing.best_fraction)} is "
            f"expected to end {best:.3f} higher (--pilot-fraction {sharing.best_fraction:g})."
        )
    shown = sharing.fraction or sharing.best_fraction
    gain = sharing.expected_gain if sharing.fraction else best
    told = f": with {_share(shown)} for them the final run {_ends(gain)}" if shown else ""
    advice = "" if sharing.fraction else " Run the first row with all of it."
    later = (
        f" They would from about {hours(sharing.pays_from)} GPU-hours on."
        if sharing.pays_from
        else " No larger budget was found at which they would."
    )
    return f"Pilots are not expected to pay at {hours(budget_gpu_hours)} GPU-hours{told}.{advice}{later}"


def _share(fraction: float) -> str:
    return f"{fraction:.3g} of the budget"


def _ends(gain: float) -> str:
    if abs(gain) < LEAST_GAIN:
        return "is expected to end where the first row ends with the whole budget"
    return f"is expected to end {abs(gain):.3f} {'higher' if gain > 0 else 'lower'} than the first row with all of it"
