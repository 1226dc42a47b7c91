"""How a plan shares its budget and its GPUs between pilots and the final run, in words."""


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
