"""Whether what one machine writes into a sweep's folder, or to its URL, is there for the next, and how fast.

As a program of its own it joins a cluster and has every machine write, and then read what another has written.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgets.errors import InputError, RlplanError

MEBIBYTES = 64
_LONGEST = 120.0  # seconds for each of the two rounds
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """How a machine fares with the folder."""

    host: str
    written_per_second: float | None  # MB; None where it could not be
    read_per_second: float | None  # of what another machine has written, where there are several
    error: str  # empty where all is well


def try_folder(folder: Path | str, address: str | None) -> list[NodeFiles]:
    """Write to a folder or a URL and read there, from every machine of a cluster, or from this one."""
    if address is None:
        write, read_back = _ways(str(folder))
        written = [write(str(folder), "this-machine", MEBIBYTES)]
        read = [read_back(str(folder), "this-machine", written[0]["digest"])] if not written[0]["error"] else [{}]
        return _together(written, read)
    command = [sys.executable, "-m", "runner.rehearsal.node_files", address, str(folder), str(MEBIBYTES)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * _LONGEST, check=True)
        return _together(*json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines() or [""]
        raise InputError(
            f"the machines of the cluster at {address} cannot be asked to write into {folder}: {lines[-1]}"
        ) from error


def _together(written: list[dict[str, Any]], read: list[dict[str, Any]]) -> list[NodeFiles]:
    return [
        NodeFiles(w["host"], w.get("speed"), r.get("speed"), w["error"] or r.get("error", ""))
        for w, r in zip(written, read, strict=True)
    ]


def _written(folder: str, name: str, mebibytes: int) -> dict[str, Any]:
    """Write a file to the disk and say how fast; it runs on other machines, and needs nothing of ours there."""
    import socket  # noqa: PLC0415

    block, digest, began = os.urandom(_MIB), hashlib.sha256(), time.monotonic()
    try:
        with open(os.path.join(folder, name), "wb") as file:
            for _ in range(mebibytes):
                file.write(block)
                digest.update(block)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return {"host": socket.gethostname(), "digest": "", "error": f"cannot write there: {error.strerror or error}"}
    speed = mebibytes * _MIB / 1e6 / max(1e-6, time.monotonic() - began)
    return {"host": socket.gethostname(), "digest": digest.hexdigest(), "speed": speed, "error": ""}


def _read(folder: str, name: str, expected: str) -> dict[str, Any]:
    """Read a file that another machine has written, and say how fast."""
    digest, size, began = hashlib.sha256(), 0, time.monotonic()
    try:
        with open(os.path.join(folder, name), "rb") as file:
            while block := file.read(_MIB):
                digest.update(block)
                size += len(block)
    except OSError as error:
        return {"error": f"what another machine wrote is not there ({error.strerror or error}): is the folder shared?"}
    if digest.hexdigest() != expected:
        return {"error": "reads something else than another machine wrote: is the folder shared?"}
    return {"speed": size / 1e6 / max(1e-6, time.monotonic() - began), "error": ""}


def _stored(url: str, name: str, mebibytes: int) -> dict[str, Any]:
    """Send a file to a URL, and say how fast."""
    from runner.storage.place import Place  # noqa: PLC0415 (another machine needs it for a URL alone)

    with tempfile.TemporaryDirectory() as here:
        local = _written(here, name, mebibytes)
        began = time.monotonic()
        try:
            Place(url).put(Path(here), [name])
        except (RlplanError, OSError) as error:
            return {"host": local["host"], "digest": "", "error": local["error"] or str(error)}
        return local | {"speed": mebibytes * _MIB / 1e6 / max(1e-6, time.monotonic() - began)}


def _fetched(url: str, name: str, expected: str) -> dict[str, Any]:
    """Get a file that another machine has sent to a URL, and say how fast."""
    from runner.storage.place import Place  # noqa: PLC0415 (as above)

    with tempfile.TemporaryDirectory() as here:
        began = time.monotonic()
        try:
            Place(url).get(Path(here), [name])
        except (RlplanError, OSError) as error:
            return {"error": f"what another machine wrote is not there: {error}"}
        seconds = time.monotonic() - began
        size = os.path.getsize(os.path.join(here, name))
        return _read(here, name, expected) | {"speed": size / 1e6 / max(1e-6, seconds)}


def _ways(place: str) -> tuple[Callable[[str, str, int], dict[str, Any]], Callable[[str, str, str], dict[str, Any]]]:
    """Return what writes to a place, and what reads there."""
    return (_stored, _fetched) if "://" in place else (_written, _read)


def _on_every_node(folder: str, mebibytes: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])

    def there(node: str) -> dict[str, Any]:
        strategy = NodeAffinitySchedulingStrategy(node, soft=False)
        return {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": strategy}

    write, read = map(ray.remote, _ways(folder))
    wrote = ray.get([write.options(**there(node)).remote(folder, node, mebibytes) for node in nodes], timeout=_LONGEST)
    pairs = [(nodes[number], (number + 1) % len(nodes)) for number in range(len(nodes))]
    reads = [read.options(**there(node)).remote(folder, nodes[of], wrote[of]["digest"]) for node, of in pairs]
    return wrote, ray.get(reads, timeout=_LONGEST)


if __name__ == "__main__":
    from runner.sweep.tune import cluster

    os.environ.update({**cluster.ENVIRONMENT, **{n: v for n, v in os.environ.items() if n in cluster.ENVIRONMENT}})
    cluster.connect(sys.argv[1], 0, None, "")
    sys.stdout.write(json.dumps(_on_every_node(sys.argv[2], int(sys.argv[3]))) + "\n")
