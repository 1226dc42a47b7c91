"""Final runs on a real Ray: by our own trainer from a pilot's checkpoint, and by stand-ins of other trainers."""

from pathlib import Path
from typing import Any

import pytest

from planner.store import open_store
from planner.store.finals import Final
from planner.store.schema import Point, Trial
from planner.store.state import sweep_state
from runner.training import checkpoints
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import spent_of


def launched(run: Run, *further: str) -> dict[str, Any]:
    document: dict[str, Any] = run.json("launch", "--validations", "5", *further)["final"]
    return document


@pytest.mark.soak
def test_our_own_trainer_goes_on_from_the_pilot_and_keeps_its_best_checkpoint(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("sweep", "--task", "sum-easy", "--budget", "0.03", "--workers", "1").code == 0
    final = launched(run)
    assert final["status"] == "finished"
    assert isinstance(final["best_folder"], str)
    assert checkpoints.exists(Path(final["best_folder"]))
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        row = session.query(Final).one()
        trial = session.query(Trial).filter(Trial.sweep_id == row.sweep_id).one()
        of_pilot, own = (
            {point.optimizer_step: point.score for point in session.query(Point).filter(Point.trial_id == number)}
            for number in (row.from_trial_id, trial.id)
        )
        assert row.from_step > 0
        assert of_pilot.items() <= own.items()
        assert max(own) > row.from_step
        assert sweep_state(session, "sweep-1-final").segments[trial.id][0].charged_gpu_hours == 0.0
    assert spent_of("rlplan.db") > 0
