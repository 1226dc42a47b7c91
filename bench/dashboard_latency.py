"""How long `rlplan dashboard` takes to answer, of a sweep with 1,000 trials of 100 points each.

    python bench/dashboard_latency.py [--trials 1000] [--requests 100]

A process serves; clients in another ask over HTTP, one after the other and eight at once: first while the sweep rests,
then while a point is added twice a second. The bar is a p95 of 200 ms for a page. The first page of a sweep, which has
to read it, stands by itself; for data.json, which is no page, there is no bar.
"""

import argparse
import http.client
import math
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from scheduler_scale import PILOT_STEPS, SEGMENT_STEPS, VALIDATION_STEPS, stored_sweep
from sqlalchemy import insert, select, update

from planner.store import Store, open_store
from planner.store.results import add_points
from planner.store.schema import Decision, Fit, Point, Segment, SegmentOutcome, Sweep, SweepStatus, Transition, Trial
from planner.trials import TrialState

BAR_MS, CLIENTS, WRITE_SECONDS = 200.0, 8, 0.5
THINKING_SECONDS = 0.1  # between two questions while the sweep goes on, so that it does go on between them
POINTS = PILOT_STEPS // VALIDATION_STEPS


def main() -> None:
    """Write the database, serve it, ask, print the table."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rlplan.db"
        with open_store(path) as store:
            sweep = seeded(store, given.trials)
        print(f"{given.trials:,} trials × {POINTS} points, {path.stat().st_size / 2**20:.0f} MB\n")
        with served(path) as port:
            pages = {
                "sweep": f"/sweeps/{sweep}",
                "section": f"/sweeps/{sweep}/sections/answer",
                "curves": f"/sweeps/{sweep}/sections/curves",
                "trial": f"/sweeps/{sweep}/trials/NUMBER",
                "list": "/",
                "data.json": f"/sweeps/{sweep}/data.json",
            }
            began = time.perf_counter()
            asked(port, pages["sweep"])
            print(f"first page of the sweep: {time.perf_counter() - began:.2f} s\n")
            print("| asked for | bytes | clients | the sweep | p50 ms | p95 ms | bar |\n|---|---|---|---|---|---|---|")
            table(port, pages, given.requests, "rests")
            with writing(path):
                table(port, pages, given.requests, "goes on")


def table(port: int, pages: dict[str, str], requests: int, state: str) -> None:
    """Print a row for each page and number of clients, each of which asks so often."""
    pause = THINKING_SECONDS if state == "goes on" else 0.0
    for name, page in pages.items():
        for clients in (1, CLIENTS):

            def ask(number: int, page: str = page) -> tuple[float, int]:
                time.sleep(pause)
                return asked(port, page.replace("NUMBER", str(number + 1)))

            with ThreadPoolExecutor(clients) as pool:
                answers = list(pool.map(ask, range(requests * clients)))
            took = [1000 * seconds for seconds, _ in answers]
            p95 = statistics.quantiles(took, n=20)[-1]
            met = "" if name == "data.json" else "met" if p95 <= BAR_MS else "MISSED"
            size = max(size for _, size in answers)
            print(
                f"| {name} | {size:,} | {clients} | {state} | {statistics.median(took):.1f} | {p95:.1f} | {met} |",
                flush=True,
            )


def asked(port: int, page: str) -> tuple[float, int]:
    """Ask for a page, and return the seconds until its last byte was there, and its size."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", page, headers={"accept": "text/html"})
    answer = connection.getresponse()
    body = answer.read()
    took = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{page}: {answer.status} {body[:200]!r}")
    return took, len(body)


@contextmanager
def served(path: Path) -> Iterator[int]:
    """Run the dashboard as a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("rlplan")), "dashboard", "--db", str(path), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        try:
            yield port
        finally:
            process.terminate()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Let the sweep go on: one more point twice a second."""
    over = threading.Event()

    def write() -> None:
        with open_store(path) as store:
            step = PILOT_STEPS
            while not over.wait(WRITE_SECONDS):
                step += VALIDATION_STEPS
                point = Point(
                    trial_id=1 + step % 50,
                    attempt=1,
                    **dict.fromkeys(("optimizer_step", "rollouts", "tokens"), step),
                    seconds=1.0,
                    gpu_hours=step * 0.01,
                    score=0.5,
                    score_standard_error=0.01,
                    metrics={},
                )
                with store.write() as session:
                    add_points(session, [point])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def seeded(store: Store, trials: int, points: int = POINTS) -> str:
    """Store a sweep whose trials have all had their pilots, with fits and decisions, and return its name."""
    sweep, _ = stored_sweep(store, "rlplan", trials, 100, seed=0)
    draw, began = random.Random(0), datetime.now(UTC) - timedelta(hours=10)
    with store.write() as session:
        rows = session.execute(select(Trial.id, Trial.sweep_id, Trial.rollouts_per_prompt, Trial.prompts_per_batch))
        made: dict[Any, list[dict[str, Any]]] = {each: [] for each in (Segment, Point, Transition, Fit, Decision)}
        for number, (trial, sweep_id, n, B) in enumerate(rows.all()):
            add_trial(made, draw, began, number, (trial, sweep_id, n, B), PILOT_STEPS // points)
        for kind, each in made.items():
            session.execute(insert(kind), each)
        session.execute(update(Trial).values(state=TrialState.FINISHED, gpu_hours_spent=PILOT_STEPS * 0.01))
        session.execute(update(Sweep).values(status=SweepStatus.INTERRUPTED))
    return sweep


def add_trial(
    made: Any, draw: random.Random, began: datetime, number: int, row: tuple[int, int, int, int], every: int
) -> None:
    """Add what one trial left behind."""
    trial, sweep_id, n, B = row
    top, middle = 0.4 + 0.03 * math.log2(n) - 0.01 * abs(math.log2(B / 128)), 60 * math.exp(draw.gauss(0, 0.3))
    common = {"trial_id": trial, "attempt": 1}
    for segment in range(PILOT_STEPS // SEGMENT_STEPS):
        start = began + timedelta(minutes=number // 100 * 40 + segment * 10)
        made[Segment].append(
            common
            | {
                "number": segment + 1, "from_step": segment * SEGMENT_STEPS, "to_step": (segment + 1) * SEGMENT_STEPS,
                "reserved_gpu_hours": 1.0, "charged_gpu_hours": 0.9, "worker": f"worker-{number % 100}",
                "started_at": start, "ended_at": start + timedelta(minutes=9), "outcome": SegmentOutcome.COMMITTED,
            }
        )  # fmt: skip
    for step in range(every, PILOT_STEPS + 1, every):
        score = 0.2 + (top - 0.2) / (1 + (middle / step) ** 1.5) + draw.gauss(0, 0.01)
        made[Point].append(
            common
            | {
                "optimizer_step": step, "segment_id": None, "rollouts": step * n * B, "tokens": step, "seconds": 1.0,
                "gpu_hours": step * 0.01, "score": score, "score_standard_error": 0.01, "metrics": {},
                "further_scores": None,
            }
        )  # fmt: skip
    made[Transition].append(
        {"trial_id": trial, "from_state": TrialState.PLANNED, "to_state": TrialState.RUNNING, "at": began, "reason": ""}
    )
    made[Fit].append(
        {
            "trial_id": trial, "made_at": began, "model": "sigmoid", "verdict": "rising", "upto_gpu_hours": 4.0,
            "target_gpu_hours": 100.0, "parameters": {}, "predicted_mean": top, "predicted_low": top - 0.05,
            "predicted_high": top + 0.05, "level": 0.9, "fit_milliseconds": 0.5, "probability_best": 0.001,
        }
    )  # fmt: skip
    made[Decision] += [
        {
            "sweep_id": sweep_id, "number": 2 * number + half, "at": began, "action": "continue", "trial_id": trial,
            "reason": f"P(best) is {draw.random():.3f}", "seen": {"probability_best": 0.1}, "alternatives": [],
        }
        for half in (1, 2)
    ]  # fmt: skip


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=100)
    return parser.parse_args()


if __name__ == "__main__":
    main()
