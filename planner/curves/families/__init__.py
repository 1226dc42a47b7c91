"""The laws of the literature, one module each: draws of what its parameters may be, given curves or a table."""

from enum import StrEnum


class Law(StrEnum):
    """What scores, or what is best, may follow."""

    SIGMOID = "sigmoid"
    POWER = "power"
    GROUP_SIZE = "group-size"
