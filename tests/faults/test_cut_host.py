"""A sweep across two hosts, of which one is cut off in the middle: network namespaces with a link between them."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.sweep.worker_records import worker_records
from tests.faults.sweeper import FAILING_FIT
from tests.faults.torment import PATIENCE, ROOT, Tormented, check, undisturbed
from tests.namespaces import NEEDS_ROOT, ip, joined, within

pytestmark = NEEDS_ROOT
HOSTS = {"rlp-one": "10.77.1.1", "rlp-two": "10.77.1.2"}
PORT = 6399


def start_ray(host: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={HOSTS[host]}", *arguments]
    done = subprocess.run(
        [*within(host), *command, "--num-cpus=1", "--disable-usage-stats"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = tempfile.mkdtemp(prefix="rlp-", dir="/tmp")  # short: it begins the names of sockets
    one, two = HOSTS
    try:
        with joined(HOSTS):
            start_ray(one, "--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder}")
            start_ray(two, f"--address={HOSTS[one]}:{PORT}")
            yield f"{HOSTS[one]}:{PORT}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


def there(sweep: Tormented, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for a segment on the second host, and return it with its worker."""
    assert sweep.trains(process), (sweep.folder / "driver.log").read_text()
    query = "SELECT id, worker FROM segments WHERE outcome = 'reserved' AND worker LIKE 'rlp-two-%'"
    while not (found := sweep.rows(query)):
        assert process.poll() is None, (sweep.folder / "driver.log").read_text()
        time.sleep(0.1)
    segment, worker = found[0]
    return int(segment), str(worker)


def test_a_link_that_is_down_and_a_folder_that_is_away_for_seconds_cost_nothing_nor_does_a_fit_that_fails(
    address: str, tmp_path: Path, calm: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAILING_FIT, "3")
    sweep = Tormented(tmp_path, address, within("rlp-one"))
    process = sweep.drive()
    segment, _ = there(sweep, process)
    ip("-n", "rlp-one", "link", "set", "rlp-one", "down")
    time.sleep(5.0)
    ip("-n", "rlp-one", "link", "set", "rlp-one", "up")
    while sweep.rows(f"SELECT outcome FROM segments WHERE id = {segment}") == [("reserved",)]:
        assert process.poll() is None, (tmp_path / "driver.log").read_text()
        time.sleep(0.1)
    assert sweep.rows("SELECT DISTINCT outcome FROM segments WHERE outcome != 'reserved'") == [("committed",)]

    there(sweep, process)
    folder = Path(sweep.spec().folder)
    folder.rename(tmp_path / "away")
    time.sleep(3.0)
    assert not folder.exists(), list(folder.rglob("*"))
    (tmp_path / "away").rename(folder)
    assert process.wait(PATIENCE * 2) == 0, (tmp_path / "driver.log").read_text()
    assert sweep.rows("SELECT count(*) FROM decisions WHERE reason LIKE '%LinAlgError%'") == [(1,)]
    check(sweep, calm)


def test_a_worker_that_is_cut_off_costs_what_it_has_recorded(
    address: str, tmp_path: Path, calm: dict[str, Any]
) -> None:
    sweep = Tormented(tmp_path, address, within("rlp-one"))
    process = sweep.drive()
    _, worker = there(sweep, process)
    ip("-n", "rlp-one", "link", "set", "rlp-one", "down")
    lived = worker_records(Path(sweep.spec().folder))[worker].gpu_hours  # its start takes minutes on a loaded machine
    assert process.wait(600) == 0, (tmp_path / "driver.log").read_text()
    record = worker_records(Path(sweep.spec().folder))[worker]
    assert record.over
    ((charged, reserved),) = sweep.rows(
        f"SELECT charged_gpu_hours, reserved_gpu_hours FROM segments WHERE worker = '{worker}' AND outcome = 'lost'"
    )
    assert charged <= max(reserved, lived + 30 / 3600)  # a worker takes itself for cut off after 20 s, and leaves in 5
    check(sweep, calm)
