"""Starts one node of a trial's own Ray and, on the head, the trainer's command in it, as soon as all nodes are there.

Run by the trainer's own interpreter as `python in_own_ray.py GIVEN [COMMAND …]`, from a copy in the trial's folder: it
uses nothing but Python 3.10 and that environment's Ray, whichever version it is. The Ray has its own ports and folder,
and another one on these machines is not touched. GIVEN is JSON; runner/trainers/launch.py writes it.
"""

import fcntl
import glob
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGABRT")
TRIES = 3  # a busy machine may be too slow for Ray, which gives a node half a minute to start
PORTS_VARIABLE = "RLPLAN_PORTS"  # in the environment: first and last of those that trainers may listen at
PORTS = ("dashboard-agent-listen-port", "runtime-env-agent-port", "metrics-export-port")
RANGED = ("node-manager-port", "object-manager-port")  # which Ray itself finds where any may be taken
# Short, because the names of Ray's sockets begin with it and may have 107 characters.
PLACE = "/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir()
FOLDERS = "rlp-ray-"
LEAST_STORE = 100 * 2**20  # bytes, below which Ray does not start
NEW_SECONDS = 60.0  # in which a folder is locked after it was made


class Node:
    """The process `ray start --block`."""

    def __init__(self, settings: dict[str, Any], *arguments: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        size = [f"--node-ip-address={settings['address']}", f"--num-gpus={settings['gpus']}"]
        size += share(int(settings["gpus"]))
        ports = [f"--{name}={port}" for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)]
        first, last = port_range() or (0, 0)
        if last:
            ports += [f"--{name}={port}" for name, port in zip(RANGED, free_ports(len(RANGED)), strict=True)]
        ports += [f"--min-worker-port={first}", f"--max-worker-port={last}"]
        command += [*size, *ports, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def wait_until(self, condition: Callable[[], bool], until: float, missing: str) -> None:
        """Wait for something as long as the node lives, until a time at which the program ends with what is missing."""
        while not condition():
            if self.process.poll() is not None:
                sys.exit(f"the trial's own Ray has ended with code {self.process.returncode}")
            require_time(until, missing)
            time.sleep(0.2)

    def end(self) -> None:
        """End it in good order, which takes a moment."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def lead(settings: dict[str, Any], command: list[str]) -> int:
    """Start the head, say where it is, wait for the others, run the command, and return its code."""
    until = time.monotonic() + settings["seconds"]
    folder, _lock = private_folder()
    port, client = free_ports(2)
    token = secrets.token_hex(32)
    show(token)
    address = f"{settings['address']}:{port}"
    ports = [f"--port={port}"]
    if find_spec("grpc") is not None:  # a Ray without it has no server for clients, and refuses a port for one
        ports.append(f"--ray-client-server-port={client}")
    node = Node(settings, "--head", "--include-dashboard=false", f"--temp-dir={within(folder)}", *ports)
    try:
        node.wait_until(lambda: answers(settings["address"], port), until, "its head does not answer")
        aside = settings["meeting"] + ".writing"
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            json.dump({"address": address, "token": token, "folder": folder}, file)
        os.replace(aside, settings["meeting"])
        os.environ["RAY_ADDRESS"] = address
        wait_for_nodes(address, settings["nodes"], node, until)
        running = subprocess.Popen(command)
        for name in FORWARDED:
            signal.signal(getattr(signal, name), lambda number, _: running.send_signal(number))
        return running.wait()
    finally:
        node.end()
        shutil.rmtree(folder, ignore_errors=True)


def follow(settings: dict[str, Any]) -> int:
    """Join the head, and stay until it is gone; what asks the trainer to stop is for the head alone."""
    for name in FORWARDED:
        signal.signal(getattr(signal, name), lambda *_: None)
    until = time.monotonic() + settings["seconds"]
    while not os.path.exists(settings["meeting"]):
        require_time(until, f"its head has not written {settings['meeting']}")
        time.sleep(0.2)
    with open(settings["meeting"], encoding="utf-8") as file:
        meeting = json.load(file)
    show(meeting["token"])
    _lock = require_private(meeting["folder"])  # Ray has a folder of the same name on every node
    address, _, port = meeting["address"].rpartition(":")
    try:
        for _ in range(TRIES):
            code = Node(settings, f"--address={meeting['address']}").process.wait()
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
    for abandoned in glob.glob(os.path.join(PLACE, f"{FOLDERS}*")):
        remove_left(abandoned)
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


def wait_for_nodes(address: str, nodes: int, node: Node, until: float) -> None:
    """Wait until all have joined."""
    import ray

    def joined() -> bool:
        try:
            if not ray.is_initialized():
                ray.init(address=address, log_to_driver=False, logging_level="error")
        except ConnectionError:  # on a busy machine it listens long before it answers
            return False
        return bool(sum(member["Alive"] for member in ray.nodes()) >= nodes)

    missing = f"not all of its {nodes} nodes have joined: each must reach the others' ports, of which Ray takes any"
    node.wait_until(joined, until, missing)
    ray.shutdown()


def require_time(until: float, missing: str) -> None:
    """End the program after a time."""
    if time.monotonic() > until:
        sys.exit(f"the trial's own Ray could not be started in time (half of start_up_seconds): {missing}")


def gpus_here() -> int:
    """Return how many GPUs of NVIDIA or AMD this machine shows."""
    amd = glob.glob("/sys/class/kfd/kfd/topology/nodes/*/gpu_id")  # of a CPU it is 0
    return len(glob.glob("/dev/nvidia[0-9]*")) or sum(read_number(path) > 0 for path in amd)


def share(gpus: int) -> list[str]:
    """Return how large a node of Ray is to be that has a part of this machine's GPUs: Ray itself would take it whole.

    Not fewer cores than trainers ask for, verl three a GPU: they are a number that Ray counts down, and limit nothing.
    """
    there = gpus_here()
    if not 0 < gpus < there:
        return []
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = read_number("/sys/fs/cgroup/memory.max")
    free = shutil.disk_usage("/dev/shm").free
    store = min(0.3 * (min(memory, limit) if limit > 0 else memory), 0.9 * free) * gpus / there
    cpus = max(cores * gpus // there, min(cores, 4 * gpus + 4))
    return [f"--num-cpus={cpus}", f"--object-store-memory={max(int(store), LEAST_STORE)}"]


def read_number(path: str) -> int:
    """Return the number in a file, 0 where there is none."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def end_with_parent() -> None:
    """Have all that is started here end once who started this is gone, however that came: nobody pays for it."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def port_range() -> tuple[int, int] | None:
    """Return the first and last port that the user allows, None where any may be taken."""
    text = os.environ.get(PORTS_VARIABLE)
    if not text:
        return None
    first, last = map(int, text.split("-"))
    return first, last


def free_ports(count: int) -> list[int]:
    """Return ports that nobody has now; of the user's range, trainers that begin at once look in different places."""
    allowed = port_range()
    candidates = [0] * count if allowed is None else list(range(allowed[0], allowed[1] + 1))
    random.shuffle(candidates)
    sockets: list[socket.socket] = []
    for port in candidates:
        if len(sockets) == count:
            break
        listener = socket.socket()
        try:
            listener.bind(("", port))
        except OSError:
            listener.close()
        else:
            sockets.append(listener)
    ports = [int(listener.getsockname()[1]) for listener in sockets]
    for listener in sockets:
        listener.close()
    if len(ports) < count:
        sys.exit(f"RuntimeError: no {count} ports of {os.environ.get(PORTS_VARIABLE)} are free ([cluster] ports)")
    return ports


def main() -> None:
    """Do what is given, and end as the command did."""
    settings, command = json.loads(sys.argv[1]), sys.argv[2:]
    for name in [name for name in os.environ if name.startswith("RAY_")]:  # of the Ray that has started this
        del os.environ[name]
    if 0 < gpus_here() <= settings["gpus"]:
        # Nobody else is here. At 95 % of the memory, where offloaded weights lie, Ray would kill a worker of the trial.
        os.environ.update(RAY_memory_monitor_refresh_ms="0")
    end_with_parent()
    code = lead(settings, command) if command else follow(settings)
    if code < 0:  # a signal, by which a failure is told from another
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
