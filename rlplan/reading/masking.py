"""What of stored settings nobody is to see: the values of a trainer's variables, which may be tokens."""

from collections.abc import Mapping
from typing import Any

MASKED = "***"


def without_variables(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the values of every `environment` in them masked."""
    found = dict(settings)
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found[key] = dict.fromkeys(value, MASKED) if key == "environment" else without_variables(value)
    return found
