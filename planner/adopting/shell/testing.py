"""Whether a condition of a shell script holds: yes, no, or not known without running something."""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

Truth = bool | None

_UNSET = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*])")  # what no variable of the script says is empty
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


def both(one: Truth, other: Truth) -> Truth:
    """Return whether both hold."""
    return False if False in (one, other) else None if None in (one, other) else True


def either(one: Truth, other: Truth) -> Truth:
    """Return whether at least one holds."""
    return no(both(no(one), no(other)))


def no(one: Truth) -> Truth:
    """Return whether it does not hold."""
    return None if one is None else not one


def holds(words: Sequence[str]) -> Truth:
    """Return whether a test holds, `[ … ]` with its brackets."""
    inside = [word for word in words[1:] if word not in ("]", "]]")]
    for sign, join in (("||", either), ("-o", either), ("&&", both), ("-a", both)):
        if sign in inside[1:-1]:
            place = inside.index(sign, 1)
            return join(holds(["[", *inside[:place]]), holds(["[", *inside[place + 1 :]]))
    if inside[:1] == ["!"]:
        return no(holds(["[", *inside[1:]]))
    values = [_UNSET.sub("", "0" if word == "$#" else word) for word in inside]
    return None if any("$(" in value for value in values) else _compared(values)


def _compared(values: Sequence[str]) -> Truth:
    match values:
        case ["-z", value]:
            return not value
        case ["-n", value] | [value]:
            return bool(value)
        case [one, "=" | "==" | "!=" as sign, other]:
            return fnmatchcase(one, other) == (sign != "!=")
        case [one, sign, other] if sign in _NUMBERS and one.lstrip("-").isdigit() and other.lstrip("-").isdigit():
            return _NUMBERS[sign](int(one), int(other))
    return None
