"""A final run whose driver is killed at a random moment ends as if nothing had happened."""

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func

from planner.store import open_store
from planner.store.finals import Final, ForecastOfFinal, end_of_run
from planner.store.read_model import sweep_snapshot
from planner.store.schema import Plan, Point, Segment, SegmentOutcome, Sweep, SweepStatus, Trial
from tests.faults.launcher import VALIDATIONS
from tests.faults.torment import PATIENCE, ROOT

LONGEST_PAUSE = 0.5  # seconds from a forecast to the kill


def driven(what: str, database: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults.launcher", what, str(database)]
    with (database.parent / "driver.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def promise(database: Path) -> dict[str, Any]:
    """Return the row of what was promised."""
    with open_store(database, read_only=True) as store, store.read() as session:
        row = session.query(Final).one()
        return {name: getattr(row, name) for name in Final.__table__.columns.keys()}  # noqa: SIM118


def counted(database: Path, kind: type[Any]) -> int:
    with open_store(database, read_only=True) as store, store.read() as session:
        return session.query(kind).count()


def killed(process: subprocess.Popen[bytes], database: Path, after: int, pause: float) -> None:
    """Kill a driver a moment after so many forecasts are stored."""
    deadline = time.monotonic() + PATIENCE
    while counted(database, ForecastOfFinal) < after and process.poll() is None:
        assert time.monotonic() < deadline, (database.parent / "driver.log").read_text()[-3000:]
        time.sleep(0.02)
    time.sleep(pause)
    assert process.poll() is None, f"it ended before it was killed after {after} forecasts"
    process.kill()
    process.wait(PATIENCE)


@pytest.mark.soak
@pytest.mark.parametrize("kills", [1, 10])
def test_a_killed_final_run_is_resumed_to_the_same_end(tmp_path: Path, kills: int) -> None:
    database, chance = tmp_path / "rlplan.db", random.Random(kills)
    log = tmp_path / "driver.log"
    assert driven("pilots", database).wait(PATIENCE * 2) == 0, log.read_text()[-3000:]
    process, promises = driven("launch", database), []
    for at in sorted(chance.sample(range(1, VALIDATIONS - 1), kills)):
        killed(process, database, at, chance.uniform(0.0, LONGEST_PAUSE))
        promises.append(promise(database))
        process = driven("resume", database)
    assert process.wait(PATIENCE * 3) == 0, log.read_text()[-3000:]
    assert promises == [promise(database)] * kills
    with open_store(database, read_only=True) as store, store.read() as session:
        final, sweep = session.query(Final).one(), session.query(Sweep).order_by(Sweep.id.desc()).first()
        assert sweep is not None
        trial = session.query(Trial).filter(Trial.sweep_id == sweep.id).one()
        assert (sweep.status, trial.state) == (SweepStatus.FINISHED, "finished")
        segments = session.query(Segment).filter(Segment.trial_id == trial.id).all()
        assert SegmentOutcome.RESERVED not in [each.outcome for each in segments]
        assert all(each.charged_gpu_hours is not None for each in segments)
        trained = [each for each in segments if each.outcome is SegmentOutcome.COMMITTED]
        assert [each.from_step for each in trained[1:]] == [each.to_step for each in trained[:-1]]
        scores = session.query(Point.optimizer_step, Point.score).filter(Point.trial_id == trial.id).distinct().all()
        assert len({step for step, _ in scores}) == len(scores)  # what was trained again came out the same
        end = end_of_run(session, final)
        assert session.query(func.max(Point.optimizer_step)).filter(Point.trial_id == trial.id).scalar() == end
        forecasts = [each.step for each in session.query(ForecastOfFinal).order_by(ForecastOfFinal.id)]
        assert forecasts == sorted(set(forecasts))
        assert forecasts[-1] == end
        spent = sum(sweep_snapshot(session, each.name).spent_gpu_hours for each in session.query(Sweep))
        assert spent <= session.query(Plan).one().budget_gpu_hours
