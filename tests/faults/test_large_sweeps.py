"""A plan for 64 GPUs, swept by stand-ins in scaled time on eight Ray nodes of eight on two hosts, whatever happens."""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from runner.ports.trial import TrialConfig
from runner.simulation.world import course_of
from tests.faults.eight_nodes import TwoHosts, eight_nodes
from tests.namespaces import NEEDS_ROOT, within

pytestmark = NEEDS_ROOT
HOSTS = {"rlp-big-one": "10.77.5.1", "rlp-big-two": "10.77.5.2"}
BUDGET = 5000
PATIENCE = 900.0  # seconds until a world has gone wrong
CUT_SECONDS = 60.0
LAST_FAULT = 7  # the step of the last one that a trial goes on from
SCALE = 60  # of the clock under faults: a real second of 8 GPUs costs .13 GPU-hours
EACH_GPU_HOURS = 27.0  # of a pilot's updates: 200 real seconds of 8 GPUs
CONFIG = """
[workload]
mean_response_tokens = 3277

[hardware]
gpus_per_trial = 64

[pilot]
fraction = {fraction}
gpus = 8

[trainer]
name = "standin"

[trainer.patience]
least_seconds = 15
pause_seconds = 15
stop_seconds = 20

[trainer.options]
time_scale = {scale}
save_every_steps = 5
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoHosts]:
    with eight_nodes(HOSTS) as nodes:
        yield nodes


class World:
    """A folder with a plan, and what its sweep leaves in the database."""

    def __init__(self, folder: Path, cluster: TwoHosts, config: str) -> None:
        self.folder, self.cluster = folder, cluster
        (folder / "rlplan.toml").write_text(config)
        said = self.rlplan("propose", "--budget", str(BUDGET), "--explore", "--format", "json")
        self.plan: dict[str, Any] = json.loads(said)

    def rlplan(self, *words: str) -> str:
        process = self.start(*words)
        said, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors[-3000:] + said[-1000:]
        return said

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", "from rlplan.entry import main; raise SystemExit(main())", *words]
        return subprocess.Popen(
            [*within(self.cluster.first), *command],
            cwd=self.folder,
            env=dict(self.cluster.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.folder / 'rlplan.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()

    def until(self, process: "subprocess.Popen[str]", query: str) -> list[Any]:
        """Wait until a query finds something."""
        return self.wait(process, lambda: self._found(query))

    def wait(self, process: "subprocess.Popen[str]", condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert process.poll() is None, process.communicate()[1][-3000:]
            assert time.monotonic() < end
            time.sleep(0.2)
        return found

    def _found(self, query: str) -> list[Any]:
        try:
            return self.rows(query)
        except sqlite3.OperationalError:  # it is being made
            return []

    @property
    def spent(self) -> float:
        charged = "SELECT sum(charged_gpu_hours) FROM segments UNION ALL SELECT sum(gpu_hours) FROM charges"
        return sum(row[0] or 0.0 for row in self.rows(charged))

    @property
    def side_by_side(self) -> int:
        rows = self.rows("SELECT started_at, ended_at FROM segments WHERE worker IS NOT NULL")
        moments = sorted([(start, 1) for start, _ in rows] + [(end, -1) for _, end in rows])
        return max(accumulate(change for _, change in moments))

    def scores_are_those_of_the_world(self) -> None:
        """Hold every score against what the simulated world has at its step: nobody was disturbed there."""
        for trial, config in self.rows("SELECT id, config FROM trials"):
            course = course_of(TrialConfig.model_validate_json(config))
            query = f"SELECT optimizer_step, score FROM points WHERE trial_id = {trial} AND score NOT NULL"
            for step, score in self.rows(query):
                assert score == course.point(step).score


def test_the_plan_runs_side_by_side_to_a_recommendation_within_its_budget(cluster: TwoHosts, tmp_path: Path) -> None:
    world = World(tmp_path, cluster, CONFIG.format(fraction=0.15, scale=300))
    assert world.plan["hardware"]["pilots_at_once"] >= 6
    said = world.rlplan("sweep", "--ray-address", cluster.address, "--folder", "runs", "--format", "json")
    recommended = json.loads(said)["recommendation"]
    assert recommended["update_steps"] > 0
    assert world.spent <= world.plan["pilot_gpu_hours"]
    assert world.spent >= 0.7 * world.plan["pilot_gpu_hours"]
    assert world.side_by_side >= 6
    world.scores_are_those_of_the_world()


def test_a_rehearsal_places_all_64_gpus_of_the_final_run(cluster: TwoHosts, tmp_path: Path) -> None:
    world = World(tmp_path, cluster, CONFIG.format(fraction=0.05, scale=300))
    found = world.rlplan("sweep", "--rehearse", "--ray-address", cluster.address, "--folder", "runs")
    assert "64 h100 on 8 nodes: placed" in " ".join(found.split())


FAULTS = """
name = "standin"

[patience]
least_seconds = 30
pause_seconds = 30
stop_seconds = 40  # an update of the largest batch takes 20: one that is asked to end must come to its end

[options]
time_scale = {4}
save_every_steps = 5
[[options.faults]]
kind = "hang"
at_step = 2
{0}

[[options.faults]]
kind = "torn-checkpoint"
at_step = 5
{1}

[[options.faults]]
kind = "killed"
at_step = 6
{1}

[[options.faults]]
kind = "out-of-memory"
at_step = {3}
attempts = 0
{2}
"""


def test_whatever_befalls_it_the_trials_and_scores_are_the_same(cluster: TwoHosts, tmp_path: Path) -> None:
    """A hang, a torn checkpoint, out of memory, a node that is killed and a link that is cut for a minute."""
    world = World(tmp_path, cluster, CONFIG.format(fraction=0.1, scale=SCALE))
    pilots = [each for each in world.plan["candidates"] if each["pilot_steps"]]
    assert len(pilots) >= 5
    plain = [each for each in pilots if not each.get("axes")]  # the others are of the first row's n and B
    places = [f"rollouts_per_prompt = {n}\nprompts_per_batch = {B}" for n, B in map(cell, plain)]
    alike(tmp_path / "rlplan.db")
    ((its_last,),) = world.rows(
        "SELECT pilot_steps FROM candidates WHERE pilot_steps > 0 AND (rollouts_per_prompt, prompts_per_batch) = "
        f"({', '.join(map(str, cell(plain[2])))})"
    )
    (tmp_path / "faulty.toml").write_text(FAULTS.format(*places[:3], its_last, SCALE))
    common = ("--ray-address", cluster.address, "--folder", "runs")
    # All of it may befall one trial before it has saved again: two faults of its own, the node and the link.
    often = ("--retries", "6")
    process = world.start("sweep", "plan-1", "--trainer", "faulty.toml", "--policy", "full", *often, *common)
    working = "SELECT id, worker FROM segments WHERE worker LIKE 'rlp-big-two%' AND outcome = 'reserved'"
    retried = "SELECT json_extract(seen, '$.kind') AS kind FROM decisions WHERE action = 'retry'"
    for kind in ("hang", "checkpoint"):  # else a trial that a node takes along might never come to its own fault
        world.until(process, f"{retried} AND kind = '{kind}'")
    segment, worker = world.until(process, working)[0]
    cluster.kill_node_of(int(worker.removeprefix("rlp-big-two-").split("-")[0]))
    world.until(process, f"SELECT id FROM segments WHERE id = {segment} AND outcome != 'reserved'")
    world.until(process, working)
    cluster.link("down")
    cut_at = time.monotonic()
    world.wait(process, lambda: time.monotonic() - cut_at >= CUT_SECONDS)
    cluster.link("up")
    cluster.clear(cluster.second)
    cluster.begin(cluster.second)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 5, errors[-3000:]  # one has failed, as it was told to
    world.scores_are_those_of_the_world()
    assert world.spent <= world.plan["pilot_gpu_hours"]
    failed = dict(world.rows("SELECT name, failure_class FROM trials WHERE state = 'failed'"))
    n, B = cell(plain[2])
    assert failed == {f"n{n}-B{B}-s0": "out-of-memory"}
    reached = world.rows(
        "SELECT c.pilot_steps, (SELECT max(to_step) FROM segments WHERE trial_id = t.id AND outcome = 'committed') "
        "FROM trials t JOIN candidates c ON c.id = t.candidate_id WHERE t.state != 'failed'"
    )
    assert len(reached) == len(pilots) - 1
    assert all(wanted == made for wanted, made in reached)
    assert {("hang",), ("checkpoint",), ("lost",)} <= set(world.rows(retried))


def cell(candidate: dict[str, Any]) -> tuple[int, int]:
    return candidate["rollouts_per_prompt"], candidate["prompts_per_batch"]


def alike(database: Path) -> None:
    """Have every pilot of a plan take as long, so that five are under way until all has happened.

    Five do not fit on the first host, so that one works on the second when the link is cut: the one that fails
    for good does so in its last step. What interruptions cost is left of the budget.
    """
    with closing(sqlite3.connect(database)) as connection:
        steps = f"max({LAST_FAULT + 1}, CAST({EACH_GPU_HOURS} / pilot_gpu_hours_per_step AS INTEGER))"
        more = f"({steps} - pilot_steps) * pilot_gpu_hours_per_step"
        connection.execute(
            f"UPDATE candidates SET pilot_gpu_hours = pilot_gpu_hours + {more}, pilot_steps = {steps}, "
            "segment_steps = 10 WHERE pilot_steps > 0"
        )
        connection.commit()
