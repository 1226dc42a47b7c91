"""A run ends saved when its terminal is closed, as it does when it is asked to stop."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import signal, sys, time
from rlplan.actions.interrupts import Interrupts
if sys.argv[2] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
with Interrupts() as interrupts:
    interrupts.patient = True
    interrupts.announce = lambda: print("finishing the update", file=sys.stderr, flush=True)
    print("up", flush=True)
    while not interrupts.requested:
        time.sleep(0.02)
    time.sleep(0.5)  # meanwhile the shell sends it too
    print("saved", flush=True)
    open(sys.argv[1], "w").write("saved")
"""


@pytest.mark.parametrize("how", ["closed", "kill -HUP twice", "nohup"])
def test_a_closed_terminal_saves_as_sigterm_does(tmp_path: Path, how: str) -> None:
    saved = tmp_path / "saved"
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, str(saved), how])
    assert b"up" in os.read(terminal, 100)
    if how == "closed":
        os.close(terminal)
    else:
        os.kill(process, signal.SIGHUP)
        os.kill(process, signal.SIGHUP)
    if how == "nohup":
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(["tail", f"--pid={process}", "-f", "/dev/null"], timeout=1.0, check=False)
        os.kill(process, signal.SIGTERM)
    assert os.waitpid(process, 0)[1] == 0
    assert saved.read_text(encoding="utf-8") == "saved"
