"""The files that a run's command names, and those that they name: read as data, wherever the command means them."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.adopting.configuration import LARGEST, Flat, as_number, document_of, flat

SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_DEEPEST = 6  # files that name each other
_UP = 6  # folders above a script in which a relative name is looked for: its repository
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_PRODUCT = re.compile(r"\$\{(mul|add|sub|div|max|min):\s*([\d.]+)\s*,\s*([\d.]+)\s*\}")
_MARK = re.compile(r"^(?:\$\w+|\$\([^)]*\)|~|\.)?/+")  # a folder that is not known


def found_file(name: str, folder: Path) -> Path | None:
    """Return where a named file lies: beside the script, in a folder above it, or in one of those within `configs`."""
    known = _MARK.sub("", name) if "$" in name else name
    if "$" in known or not known:
        return None
    for above in [folder, *folder.absolute().parents][:_UP]:
        with suppress(OSError):
            if (above / known).is_file():
                return above / known
    return None


def read_named(path: Path, written: Mapping[str, str] | None = None, depth: int = 0) -> Flat:
    """Return what a file of settings says, over what its `defaults` say; ValueError or OSError where it is none."""
    if depth > _DEEPEST:
        return {}
    document = _document(path, (written or {}).get(path.name))
    found: Flat = {}
    for name in _bases(document):
        for each in (name, f"{name}.yaml"):
            if (base := found_file(each, path.parent)) and base != path:
                found |= read_named(base, written, depth + 1)
                break
    return found | flat(document)


def _document(path: Path, text: str | None) -> Any:
    if text is None:
        if path.stat().st_size > LARGEST:
            raise ValueError("it is too large for settings")
        text = path.read_text(encoding="utf-8", errors="replace")
    return document_of(path.suffix, text)


def _bases(document: object) -> Iterable[str]:
    """Yield the names of the files that a file builds on; Hydra's groups are the trainer's own defaults."""
    given = document.get("defaults") or document.get("base") if isinstance(document, Mapping) else None
    for each in given if isinstance(given, list) else [given]:
        if isinstance(each, str) and each != "_self_":
            yield each


def resolved(found: Flat) -> Flat:
    """Return it with OmegaConf's references filled in, `${policy.model_name}` and `${mul:2,512}`."""

    def filled(text: str, depth: int = 0) -> str:
        if depth > _DEEPEST or len(text) > 1000 or "${" not in text:
            return text
        changed = _REFERENCE.sub(lambda named: str(found.get(named[1], named[0])), text)
        changed = _PRODUCT.sub(lambda named: _result(named[1], float(named[2]), float(named[3])), changed)
        return text if changed == text else filled(changed, depth + 1)

    return {
        key: as_number(filled(value)) if isinstance(value, str) and "${" in value else value
        for key, value in found.items()
    }


def _result(name: str, one: float, other: float) -> str:
    sums = {"mul": one * other, "add": one + other, "sub": one - other, "max": max(one, other), "min": min(one, other)}
    return f"{sums[name] if name in sums else one / (other or 1):.12g}"
