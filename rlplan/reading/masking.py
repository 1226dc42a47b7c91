"""What of stored settings nobody is to see: the values of a trainer's variables, which may be tokens."""

import re
from collections.abc import Mapping
from typing import Any

MASKED = "***"
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def without_variables(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the values of every `environment` in them masked."""
    found = dict(settings)
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found[key] = dict.fromkeys(value, MASKED) if key == "environment" else without_variables(value)
    return found


def told_apart(given: Mapping[str, str], filled: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that rlplan fills in, and the names of those that are the user's own or secret by name."""
    ours = {name: value for name, value in filled.items() if given.get(name) != value and not _SECRET.search(name)}
    return ours, [name for name in filled if name not in ours]
