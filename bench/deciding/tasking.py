"""Hands tables and jobs to the peers, which live in an environment of their own, and keeps what they answered."""

import functools
import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from planner.replay.recorded import Recorded

HERE: Final = Path(__file__).parent
RULES: Final = ("last", "rung", "long")
REACHES: Final = ("full", "short")
BUDGETED: Final = ("grid-halving", "grid-thirding")  # they know their budget: reach means nothing to them
PEERS: Final = (
    *(f"syne-tune/{name}" for name in ("asha", "hyperband", "cqr-asha", "cqr", "bohb", "median", "random")),
    *(f"hpbandster/{name}" for name in ("bohb", "hyperband")),
    *(f"optuna/{name}" for name in ("tpe-median", "tpe-halving", "tpe-hyperband", "tpe")),
    *BUDGETED,
)
SLOW: Final = ("syne-tune/cqr-asha", "syne-tune/cqr", "hpbandster/bohb")  # seconds a play, not tenths


@dataclass(frozen=True)
class Job:
    """One play of a peer over one table: what it would choose at each budget (in GPU-hours)."""

    table: str  # the hash of `Tables.put`
    peer: str
    reach: str
    seed: int
    workers: int
    budgets: tuple[float, ...]

    @property
    def key(self) -> str:
        """What tells jobs over the same table apart."""
        spent = ",".join(f"{budget:.6g}" for budget in self.budgets)
        return f"{self.peer} {self.reach} seed={self.seed} workers={self.workers} budgets={spent} {_version(self.peer)}"


@dataclass
class Cache:
    """A folder with the tables as the peers read them, and a file of answers for each."""

    folder: Path
    _answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, recorded: Recorded, target: float) -> str:
        """Write a table where it is not there yet, and return its hash."""
        document = json.dumps(_document(recorded, target), separators=(",", ":"))
        digest = hashlib.sha256(document.encode()).hexdigest()[:16]
        path = self.table(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(document)
        return digest

    def table(self, digest: str) -> Path:
        """The file of a table."""
        return self.folder / f"{digest}.table.json"

    def known(self, job: Job) -> list[dict[str, int]] | None:
        """Return what was answered before: for each budget the number of the configuration by each rule."""
        if job.table not in self._answers:
            path = self._file(job.table)
            lines = path.read_text().splitlines() if path.exists() else []
            self._answers[job.table] = dict(json.loads(line) for line in lines)
        found: list[dict[str, int]] | None = self._answers[job.table].get(job.key)
        return found

    def keep(self, job: Job, choices: list[dict[str, int]]) -> None:
        """Add an answer."""
        self.known(job)
        self._answers[job.table][job.key] = choices
        with self._file(job.table).open("a") as file:
            file.write(json.dumps([job.key, choices]) + "\n")

    def _file(self, digest: str) -> Path:
        return self.folder / f"{digest}.answers.jsonl"


def _document(recorded: Recorded, target: float) -> dict[str, Any]:
    runs: dict[Any, list[tuple[list[float], list[float]]]] = {one: [] for one in recorded.configurations}
    for run in recorded.runs:
        runs[run.configuration].append((run.gpu_hours.tolist(), run.scores.tolist()))
    axes = [{"n": n, "B": B, **dict(further)} for n, B, further in recorded.configurations]
    return {"configurations": axes, "runs": list(runs.values()), "target": target}


@functools.cache
def _version(peer: str) -> str:
    """A hash of the code that an answer depends on: what all peers share, and the peer's own."""
    own = "halving" if peer in BUDGETED else f"with_{peer.partition('/')[0].replace('-', '_')}"
    code = "".join((HERE / "peers" / f"{name}.py").read_text() for name in ("board", "clock", "serve", own))
    return hashlib.sha256(code.encode()).hexdigest()[:8]


class Server:
    """A process of the peers' environment that answers one job after the other."""

    def __init__(self, python: Path, cache: Cache) -> None:
        """Start it."""
        self._cache = cache
        self._process = subprocess.Popen(
            [str(python), str(HERE / "peers" / "serve.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def answer(self, job: Job) -> tuple[list[dict[str, int]], float]:
        """Return the choices at each budget, and the CPU-seconds that they took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "table": str(self._cache.table(job.table)),
            "peer": job.peer,
            "reach": job.reach,
            "seed": job.seed,
            "workers": job.workers,
            "budgets": job.budgets,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(
                f"the peers' process ended at {job.peer}, {job.reach}, seed {job.seed}: run serve.py by hand"
            )
        reply = json.loads(line)
        return reply["choices"], reply["cpu"]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def jobs(table: str, peers: Sequence[str], budgets: Sequence[float], seed: int, workers: Sequence[int]) -> list[Job]:
    """Return the plays of one table and seed."""
    return [
        Job(table, peer, reach, seed, count, tuple(budgets))
        for count in workers
        for peer in peers
        for reach in (("full",) if peer in BUDGETED else REACHES)
    ]
