"""A final run that real TRL trains: from its pilot, into a real fall, and back to its best checkpoint."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 400.0
FAR_TOO_HIGH = 0.05  # learning rate, at which a rising run loses everything within a few updates
CONFIG = f"""
[pilot]
most_pilots = 2
fraction = 0.15
[trainer]
name = "trl"
python = "{sys.executable}"
"""


class Plan:
    """A folder in which commands are given."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.begun = folder, list[subprocess.Popen[bytes]]()
        (folder / "rlplan.toml").write_text(CONFIG)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        program = "from rlplan.entry import main; raise SystemExit(main())"
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-c", program, *words],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdout=out,
                stderr=err,
            )
        self.begun.append(process)
        return process

    def run(self, *words: str, code: int = 0) -> str:
        ended = self.begin(*words).wait(PATIENCE)
        assert ended == code, (self.folder / "err").read_text()
        return (self.folder / "out").read_text()

    def final(self) -> dict[str, Any]:
        final: dict[str, Any] = json.loads(self.run("status", "sweep-1", "--format", "json"))["final"]
        return final or {"warnings": [], "scores": [], "sweep": None}

    def launched(self, until: str, *words: str) -> dict[str, Any]:
        """Launch the next final run, stop it once the followed one is as it is to be, and return how it stands."""
        before, process = self.final()["sweep"], self.begin("launch", "--validations", "24", *words)
        log, deadline, final = self.folder / "err", time.monotonic() + PATIENCE, self.final
        os.rename(log, log := self.folder / f"launch-{len(self.begun)}.log")
        while True:
            assert time.monotonic() < deadline, log.read_text()
            assert process.poll() is None, log.read_text()
            now = final()
            fallen = "fall" in {each["rule"] for each in now["warnings"]}
            beyond = sum(each["step"] > now.get("from_step", 0) for each in now["scores"])
            if now["sweep"] != before and (fallen if until == "it falls" else beyond >= 2):
                break
            time.sleep(0.2)
        assert self.begin("stop", "sweep-1").wait(PATIENCE) in (0, 3)  # 3: it has ended in the meantime
        assert process.wait(PATIENCE) in (130, 0, 5), log.read_text()
        return final()

    def losses(self, sweep: str) -> dict[int, float]:
        """Return what TRL logged as the loss of each update of a final run."""
        (log,) = self.folder.glob(f"*/{sweep}/*/trainer/attempt-1.metrics.jsonl")
        lines = map(json.loads, log.read_text().splitlines())
        return {each["step"]: each["logs"]["loss"] for each in lines if "logs" in each}


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    made = Plan(tmp_path)
    yield made
    for process in made.begun:
        process.kill()


@pytest.mark.soak
def test_a_real_fall_is_warned_of_and_the_best_checkpoint_gone_on_from(plan: Plan) -> None:
    plan.run("sweep", "--task", "sum-easy", "--budget", "0.1", "--workers", "1")
    trials = json.loads(plan.run("status", "sweep-1", "--format", "json"))["trials"]
    pilot = max(trials, key=lambda each: each["step"])
    allocation = f"n={pilot['rollouts_per_prompt']},B={pilot['prompts_per_batch']}"

    first = plan.launched("two scores", "--allocation", allocation)
    assert first["from_step"] == pilot["step"] > 0
    kept = first["kept"]
    (saved,) = Path(first["best_folder"]).glob("trainer/checkpoint-*/complete.json")
    step = int(saved.parent.name.rpartition("-")[2])
    assert kept["step"] <= step

    fallen = plan.launched("it falls", "--from-best", "--learning-rate", str(FAR_TOO_HIGH))
    assert (fallen["sweep"], fallen["from_step"]) == ("sweep-1-final-2", step)
    assert fallen["scores"][-1]["score"] < kept["score"] / 2
    (said,) = [each["said"] for each in fallen["warnings"] if each["rule"] == "fall"]
    named = re.search(r"`rlplan (launch sweep-1 --from-best --learning-rate )([^`]*)`", said)
    assert named is not None, said
    assert float(named[2]) == pytest.approx(first_rate(plan), rel=0.01)  # as it was planned, not half of that

    back = plan.launched("two scores", *named[1].split()[2:], str(first_rate(plan)))
    assert (back["sweep"], back["from_step"]) == ("sweep-1-final-3", step)
    assert {each["step"]: each["score"] for each in back["scores"]}[kept["step"]] == kept["score"]
    assert back["scores"][-1]["score"] > kept["score"] - 0.1
    assert back["warnings"] == []
    once, again = plan.losses("sweep-1-final"), plan.losses("sweep-1-final-3")
    same = once.keys() & again.keys()
    assert same
    assert {step: again[step] for step in same} == {step: once[step] for step in same}


def first_rate(plan: Plan) -> float:
    """Return the learning rate of the first final run, to the last digit."""
    (identity,) = plan.folder.glob("*/sweep-1-final/*/trainer/trial.json")
    rate: float = json.loads(identity.read_text())["learning_rate"]
    return rate
