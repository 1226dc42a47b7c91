import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from budgets.errors import InputError
from rlplan.web.dashboard.serving import listening
from rlplan.web.dashboard.settings import Settings, checked, is_loopback
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


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "node-7.cluster", "128.0.0.1"])
def test_another_host_needs_a_token(host: str) -> None:
    with pytest.raises(InputError, match=r"it needs a token: add --token auto"):
        checked("x.db", host, 8787, None)
    assert checked("x.db", host, 8787, TOKEN).token == TOKEN


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost", "LOCALHOST"])
def test_this_machine_alone_needs_none(host: str) -> None:
    assert is_loopback(host)
    assert checked("x.db", host, 8787, None).token is None


@pytest.mark.parametrize(
    "token", ["", "short", "0123456789abcde", "0123456789 abcdef", "0123456789abcdéf", "a" * 20 + "\n"]
)
def test_a_token_that_protects_nothing_is_refused(token: str) -> None:
    with pytest.raises(InputError, match="--token auto makes one"):
        checked("x.db", "127.0.0.1", 8787, token)


def test_a_token_is_made() -> None:
    first, second = (checked("x.db", "0.0.0.0", 8787, "auto").token for _ in range(2))
    assert first is not None
    assert len(first) >= 32
    assert first != second


def test_the_address_has_the_token_once_and_brackets() -> None:
    assert Settings("x.db", "::1", 1234, TOKEN).url == f"http://[::1]:1234/?token={TOKEN}"
    assert Settings("x.db").url == "http://127.0.0.1:8787/"
    assert Settings("x.db", "0.0.0.0", token=TOKEN).address == f"http://{socket.gethostname()}:8787"
