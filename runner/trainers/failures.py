"""What the end of a trainer's process means, where its own driver does not know better."""

import os
import re
import signal
from collections.abc import Iterable

OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|"
    r"No available memory for the cache blocks|KV cache is needed, which is larger than the available|"
    r"DefaultCPUAllocator: can't allocate memory|\bMemoryError\b|HIP out of memory"
)
_NAN = re.compile(r"\b(loss|grad(?:ient)?[ _]norm)\b.{0,40}\b(nan|inf)\b|\b(nan|inf)\b.{0,20}\bloss\b", re.IGNORECASE)
_CHECKPOINT = re.compile(
    r"(checkpoint|state_dict|safetensors|global_step).{0,200}(corrupt|torn|incomplete|truncated|not found|missing|"
    r"HeaderTooSmall|PytorchStreamReader|unexpected end|invalid header)|PytorchStreamReader failed|"
    r"SafetensorError|HeaderTooSmall|InvalidHeaderDeserialization",
    re.IGNORECASE,
)
_OWN_RAY = "the trial's own Ray"  # begins what in_own_ray.py says of its failure
_USAGE_EXIT = 2  # of argparse, click, tyro and pydantic's command lines
LAST_LINES = 40
_HIDDEN = "***"
_FEWEST_CHARACTERS = 4  # of a secret's value or line: a shorter one would hide words that say nothing of it


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return what a trainer has said without the values of its secrets, which are named by their variables."""
    values = {line.strip() for name in secrets for line in os.environ.get(name, "").splitlines()}
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _FEWEST_CHARACTERS:
            text = text.replace(value, _HIDDEN)
    return text


def classify(code: int, tail: str, resumed: bool) -> tuple[str, str]:
    """Return the kind of a failure and a sentence; only the last lines count, and the last cause that is named."""
    lines = [line for line in tail.splitlines() if line.strip()][-LAST_LINES:]
    text = "\n".join(lines)
    last = lines[-1].strip()[:300] if lines else "it printed nothing"
    if OUT_OF_MEMORY.search(text):
        return "out-of-memory", f"the trainer ran out of memory: {_line(lines, OUT_OF_MEMORY)}"
    if _NAN.search(last):
        return "nan", f"the trainer's loss is not a number: {last}"
    if resumed and _CHECKPOINT.search(text):
        return "checkpoint", f"the trainer could not go on from its checkpoint: {_line(lines, _CHECKPOINT)}"
    if code < 0 or _OWN_RAY in last:  # for want of a node, or of the way between two: others may do better
        return "lost", last if code > 0 else f"the trainer was killed by {_signal(-code)}: {last}"
    if code == _USAGE_EXIT:
        return "input", f"the trainer refused its command or configuration: {last}"
    return "error", f"the trainer ended with exit code {code}: {last}"


def _line(lines: list[str], pattern: re.Pattern[str]) -> str:
    return next((line.strip()[:300] for line in reversed(lines) if pattern.search(line)), lines[-1].strip()[:300])


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
