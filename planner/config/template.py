"""The file that `rlplan init` writes: every key with its description and default, commented out."""

import json
from typing import Any

from pydantic.fields import FieldInfo

from planner.checking import Section
from planner.config.schema import Config

HEADER = """\
# What rlplan plans for. Every key is shown with its default; remove the '#' before one to change it.
# A flag on the command line wins over this file, this file wins over the defaults.
"""

OWN_ENTRIES = """\
# A GPU or a model of your own takes the same keys as those of the catalogue:
# [gpus.my-gpu]
# memory_gb = 96
# bandwidth_gb_per_s = 4000
# dense_tflops = 900
# link_gb_per_s = 400
# decode_overhead_ms = 3.0
# layer_overhead_us = 30
# fixed_overhead_s = 4.0
# start_up_s = 180
# dollars_per_hour = 2.0
"""


def template() -> str:
    """Return a commented rlplan.toml; each commented key is valid when its '#' is removed."""
    parts = [HEADER]
    for name, field in Config.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            lines = [f"# {_first_line(section)}", f"[{name}]"]
            for key, inner in section.model_fields.items():
                lines += [f"# {inner.description}", f"# {key} = {_toml(_shown_value(inner))}"]
            parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, OWN_ENTRIES])


def _shown_value(field: FieldInfo) -> Any:
    """Return the default, or an example for a key that has none."""
    return field.default if field.default is not None else (field.examples or [""])[0]


def _first_line(section: type[Section]) -> str:
    return (section.__doc__ or "").strip().splitlines()[0]


def _toml(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str | bool) else f"{value}"
