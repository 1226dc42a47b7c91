"""One thing has one number on every page: plans, prices, checks and what trainers are given are compared."""

from pathlib import Path
from typing import Any

import pytest

from planner.config import Layer, resolve
from planner.store.schema import Plan
from rlplan.actions.proposing import draft_plan
from runner.sweep.planning import SweepChoice, sweep_spec


def planned(folder: Path, **sections: dict[str, Any]) -> Plan:
    """Return a plan that is not stored; its sections are those of rlplan.toml."""
    return draft_plan(resolve([Layer("test", {"budget": {"gpu_hours": 5000.0}, **sections})]), str(folder / "none.db"))


@pytest.mark.parametrize("save_seconds", [None, 300.0])
def test_a_trainer_saves_as_often_as_its_plan_has_priced(save_seconds: float | None, tmp_path: Path) -> None:
    given = {} if save_seconds is None else {"save_seconds": save_seconds}
    plan = planned(tmp_path, trainer={"name": "standin", **given}, hardware={"gpus": 8})
    priced = plan.hardware["save_every_seconds"]
    assert priced == save_seconds or (save_seconds is None and priced > 600)
    trainer = sweep_spec(plan, SweepChoice(folder=tmp_path)).training.trainer
    assert trainer is not None
    assert trainer.saves_every == priced
