"""What every trainer's lines have in common: colours, Ray's prefixes, and numbers as Python prints them."""

import re

Values = dict[str, float]  # by the trainer's own names
Said = tuple[int | None, Values]  # the step, where the line names it, and what it says of it

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PREFIX = re.compile(r"^\s*(?:\([^()]*\bpid=\d+[^()]*\)\s?)+")
_REPEATED = re.compile(r"\s*\[repeated \d+x across [^\]]*\].*$")
_DIGITS = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_WRAPPED = r"(?:(?:np|numpy|torch)\.\w+\(|tensor\()?"  # np.float64(0.5), tensor(0.5)
_NUMBER = re.compile(rf"\s*{_WRAPPED}({_DIGITS}|[-+]?(?:nan|inf(?:inity)?)\b)(?![\w.])", re.IGNORECASE)
# A pair of a printed dictionary; what ends it shows that the number is whole. Some versions print numbers as strings.
_PAIR = re.compile(
    rf"""(['"])((?:(?!\1).)+)\1:\s*['"]?{_WRAPPED}({_DIGITS}|[-+]?(?:nan|inf)\b)(?=['")]*\s*[,}})]|[^\w.])""",
    re.IGNORECASE,
)


def plain(line: str) -> str:
    """Return a line without colours, Ray's prefixes such as '(TaskRunner pid=7)' and its remark on repeated lines."""
    return _REPEATED.sub("", _PREFIX.sub("", _COLOURS.sub("", line))).rstrip()


def number(text: str) -> float | None:
    """Return the number at the beginning of a text, NaN too; None where there is none."""
    found = _NUMBER.match(text)
    return float(found[1]) if found else None


def pairs(text: str) -> Values:
    """Return the numbers of a printed dictionary by their keys; lists and texts in it are passed over."""
    return {found[2]: float(found[3]) for found in _PAIR.finditer(text)}
