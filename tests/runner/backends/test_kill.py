"""A trial that is killed again and again, for real, ends as one that was left alone."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.recipes import load_recipe
from runner.training import checkpoints
from tests.runner.backends.runs import assert_same_state, run
from tests.runner.words import save_words, words_config

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[3]
STEPS = 20


def train_until_killed(config: Path, folder: Path, rng: random.Random) -> bool:
    """Kill the trial at a random moment after a random number of updates; return whether it came to its end first."""
    command = [sys.executable, "-m", "tests.runner.backends.victim", str(config), str(folder), str(STEPS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        for _ in range(rng.randrange(1, 9)):
            if not victim.stdout.readline():
                return victim.wait() == 0
        time.sleep(rng.random() * 0.05)
        victim.send_signal(signal.SIGKILL)
    return False


@pytest.mark.parametrize("recipe", ["magistral"])
def test_killed_at_random_moments_and_resumed_it_ends_the_same(tmp_path: Path, recipe: str) -> None:
    config = words_config(save_words(tmp_path), load_recipe(recipe))
    (tmp_path / "config.json").write_text(config.model_dump_json())
    rng = random.Random(1)
    kills = 0
    while not train_until_killed(tmp_path / "config.json", tmp_path / "killed", rng):
        kills += 1
        assert kills < 40
    assert kills >= 3
    _, whole = run(config, tmp_path / "whole", STEPS)
    survived = checkpoints.load(tmp_path / "killed")
    assert survived.notes == ()
    assert_same_state(survived.state["trainer"], whole)
