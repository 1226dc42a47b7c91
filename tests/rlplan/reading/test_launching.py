"""The command of a final run whose configuration has no trial: it names everything that the axes say."""

from pathlib import Path

import pytest

from planner.recipes import load_recipe
from planner.store import open_store
from planner.view import Configuration
from rlplan.reading.launching import Final, launch
from runner.sweep.answering import stored_board
from runner.sweep.board import Board
from tests.rlplan.recommend_sweeps import SWEEP, ended


def board_of(path: Path) -> Board:
    with open_store(path, read_only=True) as store, store.read() as session:
        return stored_board(session, SWEEP)


@pytest.mark.parametrize(
    ("axes", "flag", "value"),
    [
        ((("recipe", "dapo"),), "--recipe", "dapo"),
        ((("model", "mine"),), "--model", "/models/mine"),
        ((("growth", "4x@64"),), "--growth", "4x@64"),
    ],
)
def test_the_axes_of_a_choice_without_a_trial_are_in_its_command(
    tmp_path: Path, axes: tuple[tuple[str, str]], flag: str, value: str
) -> None:
    path = ended(
        tmp_path / "rlplan.db",
        recipes={"dapo": load_recipe("dapo").model_dump(mode="json")},
        models={"mine": "/models/mine"},
        task={"name": str(tmp_path / "problems.jsonl"), "model": "/models/base", "reward": "exact"},
    )
    board = board_of(path)
    chosen = Final(Configuration(16, 32, axes), update_steps=100, learning_rate=1e-4, gpu_hours=1.0)
    found = launch(board, chosen, ["dapo", "easy"])
    assert found.command is not None
    assert found.command[found.command.index(flag) + 1] == value
    assert found.command[found.command.index("--out") + 1] != "runs/final-problems-n16-B32-s0"


def test_the_final_run_of_somebody_elses_trainer_is_told_with_its_own_layout(tmp_path: Path) -> None:
    path = ended(
        tmp_path / "rlplan.db",
        trainer={"name": "trl"},
        machine={"gpus": 8},
        task={"name": str(tmp_path / "problems.jsonl"), "model": "/models/base", "reward": "exact"},
    )
    board = board_of(path)
    board.spec = board.spec.model_copy(update={"final_gpus": 64, "final_nodes": 8})
    chosen = Final(Configuration(16, 32), update_steps=1234, learning_rate=1e-4, gpu_hours=1.0)
    found = launch(board, chosen, ["easy"])
    assert found.command is None
    assert found.machine is not None
    assert (found.machine.gpus, found.machine.nodes) == (64, 8)
    for said in ("trl", "64 ", "8 nodes", "n = 16", "B = 32", "1,234 updates"):
        assert said in found.note


def test_the_command_of_a_trainers_file_is_printed_filled_for_the_final_run(tmp_path: Path) -> None:
    options = {
        "here": str(tmp_path),
        "command": "python train.py --group {rollouts_per_prompt} --batch {prompts_per_batch} --lr {learning_rate} "
        "--steps {to_step} --out {folder} --nodes {nodes} --head {head_address}",
        "environment": {"HF_TOKEN": "secret", "RUN_KEY": "secret-{seed}", "SEED": "{seed}"},
        "checkpoints": {"pattern": "checkpoint-{step}"},
    }
    path = ended(
        tmp_path / "rlplan.db",
        trainer={"name": "command", "options": options},
        machine={"gpus": 8},
        task={"name": "mine", "model": "/models/base", "reward": "exact"},
    )
    board = board_of(path)
    chosen = Final(Configuration(16, 32), update_steps=1234, learning_rate=1e-4, gpu_hours=1.0)
    alone = launch(board, chosen, ["easy"])
    assert alone.line is not None
    assert alone.line.startswith("env SEED=0 python train.py --group 16 --batch 32 --lr 0.0001 --steps 1234 --out /")
    assert alone.line.endswith("final-mine-n16-B32-s0 --nodes 1 --head 127.0.0.1")
    assert "set HF_TOKEN, RUN_KEY as its [environment] does" in alone.note
    board.spec = board.spec.model_copy(update={"final_gpus": 64, "final_nodes": 8})
    found = launch(board, chosen, ["easy"])
    assert found.line is not None
    assert found.line.endswith("--nodes 8 --head HEAD_ADDRESS")
    assert "on each node, with its own rank and the head's address, on 64 " in found.note
