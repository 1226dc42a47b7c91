"""Starts one node of a trial's own Ray and, on the head, the trainer's command in it, as soon as all nodes are there.

Run by the trainer's own interpreter as `python in_own_ray.py GIVEN [COMMAND …]`, from a copy in the trial's folder: it
uses nothing but Python 3.10 and that environment's Ray, whichever version it is. The Ray has its own ports and folder,
and another one on these machines is not touched. GIVEN is JSON; runner/trainers/driving.py writes it.
"""

import fcntl
import glob
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGABRT")
TRIES = 3  # a busy machine may be too slow for Ray, which gives a node half a minute to start
PORTS = ("dashboard-agent-listen-port", "runtime-env-agent-port", "metrics-export-port")
# Short, because the names of Ray's sockets begin with it and may have 107 characters.
PLACE = "/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir()
FOLDERS = "rlp-ray-"
NEW_SECONDS = 60.0  # in which a folder is locked after it was made


class Node:
    """The process `ray start --block`."""

    def __init__(self, given: dict[str, Any], *arguments: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        size = [f"--node-ip-address={given['address']}", f"--num-gpus={given['gpus']}"]
        ports = [f"--{name}={port}" for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)]
        command += [*size, *ports, "--min-worker-port=0", "--max-worker-port=0", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for something, as long as the node lives."""
        while not condition():
            if self.process.poll() is not None:
                sys.exit(f"the trial's own Ray has ended with code {self.process.returncode}")
            time.sleep(0.2)

    def end(self) -> None:
        """End it in good order, which takes a moment."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def lead(given: dict[str, Any], command: list[str]) -> int:
    """Start the head, say where it is, wait for the others, run the command, and return its code."""
    folder, _lock = private_folder()
    port, client = free_ports(2)
    token = secrets.token_hex(32)
    show(token)
    address = f"{given['address']}:{port}"
    ports = [f"--port={port}"]
    if find_spec("grpc") is not None:  # a Ray without it has no server for clients, and refuses a port for one
        ports.append(f"--ray-client-server-port={client}")
    node = Node(given, "--head", "--include-dashboard=false", f"--temp-dir={within(folder)}", *ports)
    try:
        node.wait_until(lambda: answers(given["address"], port))
        aside = given["meeting"] + ".writing"
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            json.dump({"address": address, "token": token, "folder": folder}, file)
        os.replace(aside, given["meeting"])
        os.environ["RAY_ADDRESS"] = address
        wait_for_nodes(address, given["nodes"], node)
        running = subprocess.Popen(command)
        for name in FORWARDED:
            signal.signal(getattr(signal, name), lambda number, _: running.send_signal(number))
        return running.wait()
    finally:
        node.end()
        shutil.rmtree(folder, ignore_errors=True)


def follow(given: dict[str, Any]) -> int:
    """Join the head, and stay until it is gone; what asks the trainer to stop is for the head alone."""
    for name in FORWARDED:
        signal.signal(getattr(signal, name), lambda *_: None)
    while not os.path.exists(given["meeting"]):
        time.sleep(0.2)
    with open(given["meeting"], encoding="utf-8") as file:
        meeting = json.load(file)
    show(meeting["token"])
    _lock = require_private(meeting["folder"])  # Ray has a folder of the same name on every node
    address, _, port = meeting["address"].rpartition(":")
    try:
        for _ in range(TRIES):
            code = Node(given, f"--address={meeting['address']}").process.wait()
            if not answers(address, int(port)):
                break
        return code
    finally:
        shutil.rmtree(meeting["folder"], ignore_errors=True)


def private_folder() -> tuple[str, int]:
    """Return a new folder that no other user enters, and its lock, held until it or its last copy is closed.

    Ray lets everybody write in a folder that it is given, so it gets one within this. What starts that were killed have
    left, whose lock nobody holds, is removed.
    """
    for left in glob.glob(os.path.join(PLACE, f"{FOLDERS}*")):
        remove_left(left)
    folder = tempfile.mkdtemp(prefix=FOLDERS, dir=PLACE)
    return folder, require_private(folder)


def within(folder: str) -> str:
    """Return the folder that Ray is given."""
    return os.path.join(folder, "r")


def require_private(folder: str) -> int:
    """Make a folder, unless it is there, and return its lock; the program ends where other users may enter it."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    about = os.fstat(lock)
    if about.st_uid != os.getuid() or about.st_mode & 0o077:
        sys.exit(f"{folder} is open to other users, who could write where Ray does: remove it, and start again")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def remove_left(folder: str) -> None:
    """Remove a folder of this user whose lock nobody holds."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    with suppress(OSError):  # somebody holds it
        about = os.fstat(lock)
        if about.st_uid == os.getuid() and time.time() - about.st_mtime > NEW_SECONDS:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def show(token: str) -> None:
    """Have what is started from here show a token, which keeps others out; a Ray that knows of none passes it over."""
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token)


def answers(address: str, port: int) -> bool:
    """Whether something listens there."""
    try:
        socket.create_connection((address, port), 1.0).close()
    except OSError:
        return False
    return True


def wait_for_nodes(address: str, nodes: int, node: Node) -> None:
    """Wait until all have joined."""
    import ray

    def joined() -> bool:
        try:
            if not ray.is_initialized():
                ray.init(address=address, log_to_driver=False, logging_level="error")
        except ConnectionError:  # on a busy machine it listens long before it answers
            return False
        return bool(sum(each["Alive"] for each in ray.nodes()) >= nodes)

    node.wait_until(joined)
    ray.shutdown()


def free_ports(count: int) -> list[int]:
    """Return ports that nobody has now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main() -> None:
    """Do what is given, and end as the command did."""
    given, command = json.loads(sys.argv[1]), sys.argv[2:]
    for name in [name for name in os.environ if name.startswith("RAY_")]:  # of the Ray that has started this
        del os.environ[name]
    code = lead(given, command) if command else follow(given)
    if code < 0:  # a signal, by which a failure is told from another
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
