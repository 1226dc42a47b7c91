"""More GPU-hours for a sweep that has ended: spent within the larger budget, and only before its final run."""

from pathlib import Path
from typing import Any

import pytest

from budgets.errors import NotFoundError
from planner.store.schema import Plan, Segment, SweepStatus
from rlplan.actions.sweeping import go_on, start
from rlplan.exits import ExitCode
from rlplan.requests.run import ResumeRequest
from tests.golden.databases import make_database
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import rows
from tests.rlplan.test_sweeping import request, stored

pytestmark = pytest.mark.usefixtures("simulated_workers")


@pytest.mark.parametrize("explore", [True, False])
def test_a_sweep_that_has_ended_goes_on_with_more_money_and_spends_no_more(database: str, explore: bool) -> None:
    changes: dict[str, Any] = {"explore": explore, "policy": None}
    budget = 0.2
    assert not start(request(budget=budget, db=database, **changes)).interrupted
    before, plan = stored(database), rows(database, Plan)[0]
    with pytest.raises(NotFoundError, match="has ended"):
        go_on(ResumeRequest(db=database))

    def spent() -> float:
        return sum(segment.charged_gpu_hours or 0.0 for segment in rows(database, Segment))

    paid = spent()
    finished = go_on(ResumeRequest(db=database, add=0.3))
    after, larger = stored(database), rows(database, Plan)[0]
    assert after.status is SweepStatus.FINISHED
    assert after.config["pilot_gpu_hours"] == pytest.approx(before.config["pilot_gpu_hours"] + 0.3)
    assert (larger.budget_gpu_hours, larger.pilot_gpu_hours) == pytest.approx(
        (plan.budget_gpu_hours + 0.3, plan.pilot_gpu_hours + 0.3)
    )
    assert finished.spent_gpu_hours <= after.config["pilot_gpu_hours"] * (1 + 1e-9)
    if explore:  # a champion's challengers take what a look is worth
        assert spent() > paid
    else:
        total = after.config["target_gpu_hours"]
        assert after.config["champion"]["challenger_share"] * total == pytest.approx(0.05 * budget + 0.3)


def test_a_sweep_whose_final_run_has_begun_takes_no_more_money(run: Run, tmp_path: Path) -> None:
    make_database(tmp_path, "final")
    refused = run("resume", "sweep-1", "--add", "1")
    assert (refused.code, "the final run of sweep-1 has begun" in refused.err) == (ExitCode.BAD_INPUT, True)
