"""Waits until the memory of a dead process's GPU is free, before the GPU's next owner needs it."""

import os
import subprocess
import time

_FREE = 0.05  # share of a GPU's memory that a driver takes for itself
_LONGEST = 60.0


def wait_until_free(gpus: float, seconds: float = _LONGEST) -> None:
    """Wait until the GPUs of this process are free, or so long at most: what is then missing is an out-of-memory.

    Only whole GPUs are looked at, since a part of one has neighbours whose memory is in use rightly.
    """
    ids = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if gpus < 1 or not ids:
        return
    end = time.monotonic() + seconds
    while any(share > _FREE for share in _shares_in_use(ids)) and time.monotonic() < end:
        time.sleep(1.0)


def _shares_in_use(ids: str) -> list[float]:
    query = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits", "-i", ids]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        rows = [line.split(",") for line in answer.stdout.splitlines()]
        return [float(used) / float(total) for used, total in rows]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []  # nothing can be known, so nothing is waited for
