"""Shares and probabilities as sentences have them, such as 35 %."""


def percent(share: float, digits: int = 0) -> str:
    """Write a share of the whole."""
    return f"{100 * share:.{digits}f} %"


def chance(probability: float) -> str:
    """Write a probability; one near 0 or 1 as a bound, since it is neither."""
    if 0.005 <= probability < 0.995:
        return percent(probability)
    return "under 1 %" if probability < 0.5 else "over 99 %"
