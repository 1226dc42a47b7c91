"""A sweep across two hosts, of which one is cut off in the middle: network namespaces with a link between them."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.sweep.worker_records import worker_records
from tests.faults.torment import ROOT, Tormented, check, undisturbed
from tests.namespaces import ip, joined

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        (os.geteuid() != 0 or shutil.which("ip") is None) and not os.environ.get("RLPLAN_REQUIRE_ROOT"),
        reason="needs root, and iproute2",
    ),
]
HOSTS = {"rlp-one": "10.77.1.1", "rlp-two": "10.77.1.2"}
PORT = 6399


def within(host: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', host)


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


def test_a_worker_that_is_cut_off_costs_what_it_has_recorded(
    address: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    calm = undisturbed(tmp_path_factory.mktemp("undisturbed"))
    sweep = Tormented(tmp_path, address, within("rlp-one"))
    process = sweep.drive()
    assert sweep.trains(process), (tmp_path / "driver.log").read_text()
    there = "SELECT worker FROM segments WHERE outcome = 'reserved' AND worker LIKE 'rlp-two-%'"
    while not (found := sweep.rows(there)):
        assert process.poll() is None, (tmp_path / "driver.log").read_text()
        time.sleep(0.1)
    ip("-n", "rlp-one", "link", "set", "rlp-one", "down")
    assert process.wait(600) == 0, (tmp_path / "driver.log").read_text()
    ((worker,),) = found
    record = worker_records(Path(sweep.spec().folder))[worker]
    assert record.over
    ((charged, reserved),) = sweep.rows(
        f"SELECT charged_gpu_hours, reserved_gpu_hours FROM segments WHERE worker = '{worker}' AND outcome = 'lost'"
    )
    assert charged <= max(reserved, 60 / 3600)
    check(sweep, calm)
