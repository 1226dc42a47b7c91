"""The chance below which a configuration is given up: never on a point estimate."""

# A configuration that deserves to win is given up in at most one of fifty such judgements, and a chance of 2 % to win
# is worth at most 2 % of what the best differ by: less than the noise between seeds.
ALPHA = 0.02
# Among many that are equal all have little chance: the bar is α for up to so many, and falls with their number beyond.
MANY = 10


def bar(alpha: float, configurations: int) -> float:
    """Return the probability below which a configuration is given up, among so many."""
    return alpha * min(1.0, MANY / max(configurations, 1))
