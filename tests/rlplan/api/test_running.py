"""Sweeps that are run from Python, on simulated workers."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import rlplan
from rlplan.actions import sweeping
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweeping import Finished

Calls = list[Callable[[Interrupts], None]]
SMALL: dict[str, Any] = {"task": "sum-easy", "budget": 0.02, "policy": "full", "workers": 2}


def stop(interrupts: Interrupts) -> None:
    interrupts.requested = True


@pytest.mark.parametrize("in_a_thread", [False, True])  # which gets no signals
def test_a_sweep_runs_beneath_an_event_loop_and_is_returned(
    meanwhile: Calls, capsys: pytest.CaptureFixture[str], in_a_thread: bool
) -> None:
    async def cell() -> rlplan.Sweep:
        return await asyncio.to_thread(rlplan.run, **SMALL) if in_a_thread else rlplan.run(**SMALL)

    sweep = asyncio.run(cell())
    assert (sweep.name, sweep.status) == ("sweep-1", "finished")
    assert sweep.money.spent > 0
    assert sweep.answer is not None
    assert {row["state"] for row in sweep.trials()} <= {"finished", "paused"}
    said = capsys.readouterr()
    assert said.out == ""
    assert "sweep-1" in said.err


def test_a_plan_is_run_in_the_database_that_it_is_in(meanwhile: Calls) -> None:
    plan = rlplan.propose(budget=0.02, task="sum-easy", db="mine.db")
    sweep = rlplan.run(plan, policy="full")
    assert (sweep.plan, sweep.database) == (plan.name, "mine.db")


def test_a_stop_from_elsewhere_returns_the_sweep(meanwhile: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sweeping.start

    def start(*asked: Any, **options: Any) -> Finished:
        return replace(real(*asked, **options), interrupted=True)

    monkeypatch.setattr(sweeping, "start", start)
    assert rlplan.run(**SMALL).name == "sweep-1"


def test_an_interrupt_saves_the_state_and_it_goes_on(meanwhile: Calls) -> None:
    meanwhile.append(stop)
    with pytest.raises(KeyboardInterrupt, match=r"sweep-1 was stopped .* rlplan.resume\('sweep-1'\)"):
        rlplan.run(**SMALL)
    stopped = rlplan.open().sweep()
    assert stopped.status == "interrupted"
    assert rlplan.resume(stopped).status == "finished"
    with pytest.raises(rlplan.NotFoundError, match="has ended"):
        rlplan.resume()
    with pytest.raises(rlplan.NotFoundError, match="no trial of sweep-1 has failed"):
        rlplan.retry("sweep-1")
