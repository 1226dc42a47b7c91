"""The laws of the literature, one module each: draws of what its parameters may be, given curves or a table."""

from enum import StrEnum


class Law(StrEnum):
    """What scores, or what is best, may follow."""

    SIGMOID = "sigmoid"
    POWER = "power"
    MODEL_SIZE = "model-size"
    GROUP_SIZE = "group-size"
    VALUE_BASED = "value-based"
