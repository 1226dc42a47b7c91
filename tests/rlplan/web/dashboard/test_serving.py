import signal
import subprocess
import sys
from pathlib import Path

import pytest

from budgets.errors import InputError
from rlplan.web.dashboard.serving import listening
from rlplan.web.dashboard.settings import Settings
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import Seeder
from tests.security.attacker import TOKEN, Target, free_port, until


def test_a_port_in_use_is_said_with_the_way_out(database: Path) -> None:
    with listening(Settings(str(database), port=free_port())) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {port} of 127.0.0.1 is in use.*--port {port + 1}"):
            listening(Settings(str(database), port=port))


def test_a_host_that_is_not_here_is_said(database: Path) -> None:
    with pytest.raises(InputError, match=r"192.0.2.1 cannot be listened on .* leave --host out"):
        listening(Settings(str(database), "192.0.2.1"))


def test_the_command_refuses_what_it_cannot_do(run: Run, sweep: Seeder, database: Path) -> None:
    for flags, said in (
        (("--host", "0.0.0.0"), "--token auto"),
        (("--token", "short"), "--token auto"),
        (("--host", "http://here"), "is no host"),
    ):
        ran = run("dashboard", "--db", str(database), *flags)
        assert (ran.code, said in ran.err) == (2, True)
    ran = run("dashboard", "--db", str(database.with_name("none.db")))
    assert ran.code == 3
    assert "there is no results database" in ran.err


def test_ctrl_c_ends_it_although_pages_are_open(sweep: Seeder, database: Path) -> None:
    port = free_port()
    command = [str(Path(sys.executable).with_name("rlplan")), "dashboard", "--db", str(database), "--port", str(port)]
    env = {"PATH": "/usr/bin:/bin", "RLPLAN_DASHBOARD_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=env, text=True) as process:
        assert process.stderr is not None
        assert f"http://127.0.0.1:{port}/?token={TOKEN}" in process.stderr.readline()
        target = Target(port, TOKEN)
        with target.connected(target.head("/sweeps/sweep-1/state")) as client:
            until(client, rb"versions")
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()
