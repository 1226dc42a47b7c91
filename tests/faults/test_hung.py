"""A worker process that is stopped, as by hung storage, is killed, and the sweep ends."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.faults.sweeper import TRAINER
from tests.faults.torment import PATIENCE, Tormented
from tests.runner.waiting import until

# Of the stand-in, whose patience can be given; our own trainer has the defaults.
SHORT = """name = "standin"
[patience]
start_up_seconds = 15
least_seconds = 2
pause_seconds = 3
stop_seconds = 2
"""


@pytest.mark.soak
def test_a_worker_that_is_stopped_by_a_signal_holds_neither_the_sweep_nor_its_stop(tmp_path: Path) -> None:
    (tmp_path / TRAINER).write_text(SHORT, encoding="utf-8")
    sweep = Tormented(tmp_path)
    process = sweep.drive()
    try:
        assert sweep.trains(process), (tmp_path / "driver.log").read_text()
        taken = "SELECT worker FROM segments WHERE outcome = 'reserved' AND worker IS NOT NULL"
        pid = int(sweep.rows(taken)[0][0].rsplit("-", 2)[1])
        os.kill(pid, signal.SIGSTOP)
        until(lambda: sweep.rows("SELECT count(*) FROM decisions WHERE reason LIKE '%its worker hangs%'")[0][0])
        until(lambda: not psutil.pid_exists(pid))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) in (0, 130)
    finally:
        process.kill()
