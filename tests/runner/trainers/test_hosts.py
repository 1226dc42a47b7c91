"""A trial's further machines: what ends with their holder, who is refused, and how a Ray of its own is asked for.

With a real Ray they are tried in tests/faults/test_many_nodes.py.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import ray

from budgets.errors import InputError
from runner.ports.trial import Machine
from runner.processes import SWEEP_TAG, WORKER_TAG, sweep_orphans, tagged
from runner.trainers import hosts
from runner.trainers.command.driver import driver
from runner.trainers.hosts import LocalHost, hosts_of_this_trial
from tests.runner.trainers.standins import attempt, trial

CUT_OFF = """
import sys, time
from pathlib import Path
from runner.trainers import hosts
hosts._SILENT = 1
folder = Path(sys.argv[2])
holder = hosts.Holder({"RLPLAN_SWEEP": sys.argv[1], "RLPLAN_WORKER": "a"})
holder.start("name", ("sh", "-c", "setsid sleep 60 & echo up; exec sleep 60"), {}, folder, folder / "log")
time.sleep(60)
"""


def test_a_holder_that_hears_nothing_of_its_worker_ends_itself_and_all_that_it_has_started(tmp_path: Path) -> None:
    tag = f"rlplan-test-{uuid4().hex}"
    subprocess.run([sys.executable, "-c", CUT_OFF, tag, str(tmp_path)], timeout=50, check=True)
    left = tagged({f"{SWEEP_TAG}={tag}", f"{WORKER_TAG}=a"})
    sweep_orphans(tag)
    assert (tmp_path / "log").read_text() == "up\n"
    assert not left


class Away:
    """A holder on another machine; each call meets what is due there, and is made all the same."""

    def __init__(self, *meets: Exception) -> None:
        self._meets = list(meets)
        self._holder = hosts.Holder({})

    def __getattr__(self, name: str) -> Any:
        return Method(getattr(self._holder, name), self._meets)


class Method:
    def __init__(self, method: Any, meets: list[Exception]) -> None:
        self._method, self._meets = method, meets

    def remote(self, *arguments: Any) -> Any:
        answer = self._method(*arguments)
        return self._meets.pop(0) if self._meets else answer


def got(answer: Any, timeout: float = 0.0) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_a_connection_that_drops_for_a_moment_starts_nothing_twice_and_ends_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = [ray.exceptions.ActorUnavailableError("the connection was reset", None) for _ in range(3)]
    monkeypatch.setattr(ray, "get", got)
    monkeypatch.setattr(ray, "wait", lambda answers, timeout: (answers, []))
    monkeypatch.setattr(hosts, "_SECONDS_BETWEEN_TRIES", 0.0)
    monkeypatch.setattr(hosts, "_SECONDS_OF_A_WAIT", 0.0)
    monkeypatch.setattr(hosts.RayHost, "_give_signs", lambda host: None)
    monkeypatch.setattr(hosts.Holder, "_listen", lambda holder: None)  # it would end this process
    host = hosts.RayHost(Away(*cut), "far", "")
    process = host.start(("sh", "-c", "echo up; sleep 0.2; exit 3"), {}, tmp_path, tmp_path / "log")
    host._holder._meets.append(cut[0])
    while (code := process.poll()) is None:
        pass
    assert code == 3
    assert (tmp_path / "log").read_text() == "up\n"
    host._holder._meets.append(ray.exceptions.ActorDiedError())
    assert not host.lives()


def test_a_trial_of_several_nodes_that_nobody_has_placed_is_refused() -> None:
    (here,) = hosts_of_this_trial(1)
    assert isinstance(here, LocalHost)
    with pytest.raises(InputError, match=r"for 2 nodes, and it was given 1.*--ray-address"):
        hosts_of_this_trial(2)


def test_a_file_asks_for_a_ray_of_the_trials_own(tmp_path: Path) -> None:
    command = "train {rollouts_per_prompt} {prompts_per_batch} {learning_rate} {to_step}"
    options = {"here": "/", "command": command, "resume": "", "own_ray": True}
    config = trial("command", options=options, machine=Machine(gpus=16, nodes=2))
    driver(config).check(config)
    head, other = (driver(config).launch(config, attempt(tmp_path), rank) for rank in (0, 1))
    assert head is not None
    assert other is not None
    assert head.argv[:1] + head.argv[3:] == ("/opt/its/bin/python", "train", "4", "8", "0.0001", "6")
    assert json.loads(other.argv[2])["gpus"] == 8
    assert other.environment == {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert config.trainer is not None
    without = config.model_copy(update={"trainer": config.trainer.model_copy(update={"python": None})})
    with pytest.raises(InputError, match="own_ray = true needs python"):
        driver(without).check(without)


def test_a_rehearsal_names_the_program_and_the_scripts_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "there.py").touch()
    command = ["no-such-program", "{here}/there.py", "{here}/gone.py", "--config=x.py", "own.sh", "{to_step}"]
    sizes = ["{rollouts_per_prompt}", "{prompts_per_batch}", "{learning_rate}"]
    options = {"here": str(tmp_path), "command": [*command, *sizes], "resume": "", "files": {"own.sh": "#"}}
    config = trial("command", options=options)
    assert driver(config).rehearse(config) == ["there is no no-such-program", f"there is no {tmp_path}/gone.py"]
