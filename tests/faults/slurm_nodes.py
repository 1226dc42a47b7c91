"""A real Slurm of two nodes on this machine: network namespaces with names and addresses of their own, as root."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.namespaces import joined

NEEDED = ("ip", "slurmctld", "slurmd", "sbatch", "munged", "bindfs")
HOSTS = {"rlp-slurm1": "10.77.3.1", "rlp-slurm2": "10.77.3.2"}
PATIENCE_SECONDS = 60.0
# Debian's slurmd 22.05 looks for a hierarchy of cgroup v1: it gets one in a mount of its own, and the machine's stays.
CGROUPS = """mount --make-rprivate / && mount -t tmpfs none /sys/fs/cgroup
for each in freezer cpuset memory devices cpuacct; do
    mkdir -p /sys/fs/cgroup/$each && mount -t cgroup -o $each none /sys/fs/cgroup/$each || true
done 2>/dev/null
"""
# A folder that the nodes share as machines do: each has its own mount, whose locks reach the others and whose memory
# does not.
SHARE = "bindfs --enable-lock-forwarding --multithreaded -o direct_io,subtype=glusterfs {beneath} {shared}\n"
CONF = """ClusterName=rlplan
SlurmctldHost={head}({address})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
{nodes}
PartitionName=all Nodes={hosts} Default=YES MaxTime=120 State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """The cluster; what is run, runs on its first node, where slurmctld is."""

    folder: Path

    @property
    def shared(self) -> Path:
        """What all nodes have mounted, and this process too."""
        return self.folder / "shared"

    def run(self, *command: str, cwd: Path | None = None) -> str:
        within = ("ip", "netns", "exec", next(iter(HOSTS)))
        done = subprocess.run([*within, *command], cwd=cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def jobs(self) -> dict[str, str]:
        """Return the state of each job that has not ended."""
        lines = self.run("squeue", "--noheader", "--format=%i=%T").splitlines()
        return dict(line.split("=", 1) for line in lines)

    def end_in(self, job: str, seconds: float) -> None:
        """Have a job's time limit be so near, whatever it asked for."""
        end = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + seconds))
        self.run("scontrol", "update", f"JobId={job}", f"EndTime={end}")


def until(condition: Callable[[], object], what: str, patience: float = PATIENCE_SECONDS) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience, what
        time.sleep(0.25)


@contextmanager
def slurm_nodes(folder: Path) -> Iterator[Slurm]:
    """Start munge, slurmctld and two slurmd; SLURM_CONF names them. What runs on the nodes ends with them."""
    folder.chmod(0o755)  # munge wants everybody to get to its socket
    head, address = next(iter(HOSTS.items()))
    nodes = "\n".join(
        f"NodeName={host} NodeAddr={own} NodeHostname={host} CPUs=2 RealMemory=1000" for host, own in HOSTS.items()
    )
    names = {"folder": folder, "head": head, "address": address, "hosts": ",".join(HOSTS), "nodes": nodes}
    (folder / "slurm.conf").write_text(CONF.format(**names))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=yes\n")
    (folder / "state").mkdir()
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    started = [_munge(folder)]
    share = SHARE.format(beneath=folder / "beneath", shared=folder / "shared")
    for each in ("beneath", "shared"):
        (folder / each).mkdir()
    try:
        subprocess.run(["sh", "-c", share], check=True)
        with joined(HOSTS):
            with (folder / "out").open("wb") as out:
                started.append(_start(head, "exec slurmctld -D", out.fileno()))
                started += [_start(host, f"{CGROUPS}{share}exec slurmd -D", out.fileno()) for host in HOSTS]
            slurm = Slurm(folder)
            until(lambda: _idle() == len(HOSTS), f"the nodes did not become idle: see {folder}")
            yield slurm
    finally:
        for process in started:
            process.kill()
            process.wait()
        subprocess.run(["umount", "--lazy", folder / "shared"], check=False)
        del os.environ["SLURM_CONF"]


def _munge(folder: Path) -> subprocess.Popen[bytes]:
    """Start a munge beside the machine's, which is left alone."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    places = [f"--{name}={folder}/munge.{end}" for name, end in (("socket", "socket"), ("pid-file", "pid"))]
    places += [f"--key-file={key}", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]
    with (folder / "munge.out").open("wb") as out:
        command = ["munged", "--foreground", "--force", *places]
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    until((folder / "munge.socket").exists, "munge has not started")
    return process


def _start(host: str, commands: str, out: int) -> subprocess.Popen[bytes]:
    within = ["ip", "netns", "exec", host, "unshare", "--uts", "--mount", "sh", "-c", f"hostname {host}\n{commands}"]
    return subprocess.Popen(within, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def _idle() -> int:
    command = ["ip", "netns", "exec", next(iter(HOSTS)), "sinfo", "--noheader", "--Node", "--states=idle"]
    return len(subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines())


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in NEEDED if shutil.which(name) is None]
