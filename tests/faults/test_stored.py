"""A sweep loses its driver, its workers and every file that it had, and goes on from its copies on an S3 server."""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from runner.storage.place import Place
from tests.bucket import s3_server
from tests.faults.torment import PATIENCE, Tormented, check, undisturbed

LOSSES = 2


@pytest.mark.soak
def test_a_sweep_that_lost_all_its_files_ends_as_one_that_did_not(tmp_path: Path) -> None:
    with s3_server() as url:
        (tmp_path / "calm").mkdir()
        (tmp_path / "lossy").mkdir()
        calm = undisturbed(tmp_path / "calm")
        lossy = Tormented(tmp_path / "lossy", storage=url)
        process = lossy.drive()
        for _ in range(LOSSES):
            copies = committed(lossy)
            while committed(lossy) < copies + 3:
                assert process.poll() is None, (lossy.folder / "driver.log").read_text()
                assert lossy.trains(process)
            process.send_signal(signal.SIGKILL)
            for each in lossy.processes():
                with suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)
            process.wait(PATIENCE)
            shutil.rmtree(lossy.spec().folder)
            process = lossy.drive()
        assert process.wait(PATIENCE * 2) == 0, (lossy.folder / "driver.log").read_text()
        check(lossy, calm)
        place = Place(str(lossy.spec().storage))
        marks = [name.split("/")[0] for name in place.names() if name.count("/") == 1 and name.endswith(".json")]
        assert set(marks) == set(calm)
        assert max(marks.count(trial) for trial in calm) == 2


def committed(sweep: Tormented) -> int:
    """Return how many segments have ended with a checkpoint at the URL."""
    if not sweep.database.exists():
        return 0
    return int(sweep.rows("SELECT count(*) FROM segments WHERE outcome = 'committed'")[0][0])
