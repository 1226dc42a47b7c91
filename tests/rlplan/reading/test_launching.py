"""How a final run is launched: on its own layout, whoever trains it."""

from pathlib import Path

from planner.store import open_store
from planner.view import Configuration
from rlplan.reading.launching import Final, launch
from runner.sweep.answering import stored_board
from runner.sweep.board import Board
from tests.rlplan.recommend_sweeps import SWEEP, ended


def board_of(path: Path) -> Board:
    with open_store(path, read_only=True) as store, store.read() as session:
        return stored_board(session, SWEEP)


def test_the_final_run_of_somebody_elses_trainer_has_its_own_layout(tmp_path: Path) -> None:
    path = ended(
        tmp_path / "rlplan.db",
        trainer={"name": "trl"},
        machine={"gpus": 8},
        task={"name": str(tmp_path / "problems.jsonl"), "model": "/models/base", "reward": "exact"},
    )
    board = board_of(path)
    board.spec = board.spec.model_copy(update={"final_gpus": 64, "final_nodes": 8})
    chosen = Final(Configuration(16, 32), update_steps=1234, gpu_hours=1.0)
    found = launch(board, SWEEP, str(path), chosen)
    assert found.line == f"rlplan launch {SWEEP} --db {path}"
    assert found.machine is not None
    assert (found.machine.gpus, found.machine.nodes) == (64, 8)
