"""Two hosts on one machine: network namespaces with addresses of their own and a link between them; needs root."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pytest

NEEDS_ROOT = [
    pytest.mark.soak,
    pytest.mark.skipif(
        (os.geteuid() != 0 or shutil.which("ip") is None) and not os.environ.get("RLPLAN_REQUIRE_ROOT"),
        reason="needs root, and iproute2",
    ),
]


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def within(host: str) -> tuple[str, ...]:
    """Return what stands before a command that runs on a host."""
    return ("ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', host)


@contextmanager
def joined(hosts: Mapping[str, str]) -> Iterator[None]:
    """Make two hosts by their names and addresses; each has one device, called like the host."""
    _remove(hosts)  # of a test that was killed
    one, two = hosts
    try:
        for host in hosts:
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
        ip("link", "add", one, "netns", one, "type", "veth", "peer", "name", two, "netns", two)
        for host, address in hosts.items():
            ip("-n", host, "addr", "add", f"{address}/24", "dev", host)
            ip("-n", host, "link", "set", host, "up")
        yield
    finally:
        _remove(hosts)


def _remove(hosts: Mapping[str, str]) -> None:
    """End what runs in the hosts, and them."""
    for host in hosts:
        with suppress(subprocess.CalledProcessError):  # there is none
            for pid in ip("netns", "pids", host).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            ip("netns", "del", host)
