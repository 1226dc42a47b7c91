"""Runs a command with a real pseudo-terminal of 80 columns as its stderr."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any


def at_a_terminal(
    command: Sequence[str], cwd: Path, fed: Callable[[], AbstractContextManager[Any]] = nullcontext, **env: str
) -> tuple[int, str, str]:
    """Return a command's exit code, stdout and stderr; what `fed` opens once it has begun stays open until it ends."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
        env={"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", **env},
    )
    os.close(follower)
    err = b""
    with fed():
        while chunk := _read(leader):
            err += chunk
    out, _ = process.communicate(timeout=60)
    os.close(leader)
    return process.returncode, out, err.decode()


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # Linux says so when the other end is closed
        return b""
