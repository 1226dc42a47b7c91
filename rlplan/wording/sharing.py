"""How a plan shares its budget and its GPUs between pilots and the final run, in words."""

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


def layout_text(gpus: int, per_trial: int, per_pilot: int, pilots: int) -> str:
    """Say how many pilots run at once and on what; nothing where they have no GPUs of another number."""
    if not pilots or per_pilot == per_trial:
        return ""
    at_once, units = min(pilots, gpus // per_pilot), "GPU" if per_pilot == 1 else "GPUs"
    pilot = f"{at_once} pilots at once on {per_pilot} {units} each" if at_once > 1 else f"pilots on {per_pilot} {units}"
    return f"{pilot}; the final run on {per_trial}"


def shares(gpus: int, per_trial: int, per_pilot: int) -> str:
    """Say after the machine what a trial gets of it; nothing where that is all of it."""
    trial = f", {per_trial} a trial" if per_trial < gpus else ""
    if per_pilot == per_trial:
        return trial
    return f"{trial.replace('trial', 'final run')}, {per_pilot} a pilot"
