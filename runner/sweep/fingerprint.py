"""Fingerprints of the code that decides and trains, and of the files that a sweep was started with."""

import hashlib
import json
from pathlib import Path
from typing import Any

from runner.sweep.spec import SweepSpec

PACKAGES = ("budgets", "planner", "runner")
SUFFIXES = frozenset({".py", ".toml"})


def code_fingerprint() -> str:
    """Return a digest of every source file that can change what a sweep computes or decides."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def configuration_fingerprint(spec: SweepSpec) -> str:
    """Return a digest of a sweep's settings and of the contents of the files that they name."""
    digest = hashlib.sha256(json.dumps(spec.model_dump(mode="json"), sort_keys=True).encode())
    for path in _named_files(spec):
        digest.update(str(path).encode() + b"\0")
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(_content(file))
    return digest.hexdigest()[:16]


def _named_files(spec: SweepSpec) -> list[Path]:
    """List the files and folders of the user's own that the trials read."""
    task = spec.training.task
    simulation: dict[str, Any] = spec.training.simulation or {}
    reward = task.reward.rpartition(":")[0] if ".py:" in task.reward else None
    models = spec.training.models.values()
    names = (task.name, task.model, *models, task.validation_file, reward, simulation.get("table"))
    paths = [Path(name) for name in names if name]
    return [path for path in paths if path.exists()]


def _content(file: Path) -> bytes:
    """Digest a small file whole; of a large one, such as weights, its name and size must do."""
    size = file.stat().st_size
    if size > 64 * 2**20:
        return f"{file.name}:{size}".encode()
    return hashlib.sha256(file.read_bytes()).digest()
