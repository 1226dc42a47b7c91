"""The commands around a sweep: what they ask for, what they print, and their exit codes."""

import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlplan.actions.sweeping
import rlplan.commands.sweep
from budgets.errors import BudgetError, NotFoundError, StoreError
from rlplan.actions.sweeping import Finished
from rlplan.commands.sweep import DryRun, PlannedTrial
from rlplan.live.sweep_running import Follower
from rlplan.requests.run import SweepRequest
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import ready, seeded
from tests.rlplan.test_screens import check

DONE = Finished("sweep-1", interrupted=False, failed_trials=0, all_failed=None, spent_gpu_hours=326.5, notes=())


class Driven:
    """Stands in for `rlplan.actions.sweeping`: remembers what it was asked, and ends as it is told."""

    def __init__(self, ended: Finished | Exception = DONE) -> None:
        self.ended = ended
        self.asked: tuple[Any, ...] = ()
        self.meanwhile: Callable[[Any], None] = lambda interrupts: None

    def __call__(self, *asked: Any, interrupts: Any, began: Callable[[str], None]) -> Finished:
        self.asked = asked
        if isinstance(self.ended, Exception):
            raise self.ended
        assert not interrupts.patient
        began(self.ended.sweep)
        assert interrupts.patient
        self.meanwhile(interrupts)
        return self.ended


@pytest.fixture
def driven(monkeypatch: pytest.MonkeyPatch) -> Driven:
    stand_in = Driven()
    for verb in ("start", "go_on"):
        monkeypatch.setattr(rlplan.actions.sweeping, verb, stand_in)
    return stand_in


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with a sweep that has ended, in the directory where the commands run."""
    return ready(tmp_path / "rlplan.db")


def test_sweep_asks_for_what_the_flags_say(run: Run, driven: Driven, database: str) -> None:
    flags = ("--task", "sum-easy", "--budget", "1,000", "--policy", "asha", "--search", "none", "--seed", "3")
    assert run("sweep", *flags).code == 0
    asked = SweepRequest(task="sum-easy", budget=1000.0, policy="asha", search="none", seed=3)
    assert driven.asked == (asked,)
    run("sweep", "plan-1", "--workers", "2", "--folder", "runs/x", "--problems", "mine.jsonl", "--engine", "vllm")
    given = driven.asked[0]
    assert (given.plan, given.workers, given.folder) == ("plan-1", 2, Path("runs/x"))
    assert (given.problems, given.engine, given.retries) == (Path("mine.jsonl"), "vllm", 3)


def test_a_sweep_ends_with_its_answer_on_stdout(run: Run, driven: Driven, database: str) -> None:
    driven.ended = replace(DONE, notes=("made plan-1 first",))
    ran = run("sweep")
    assert (ran.code, ran.err.splitlines()[0]) == (
        0,
        "sweep-1 of plan-1: qwen3-8b, policy rlplan, finished, 1,000 GPU-hours for pilots",
    )
    assert ran.err.splitlines()[-1] == "made plan-1 first"
    check(ran.out)
    assert run.json("sweep") == run.json("status")
    assert (
        ran.out
        == """\
Run n = 512, B = 32 for 571 steps at learning rate 4e-6. Expected score 0.74
(0.68–0.79) after 3,997 GPU-hours.
The usual choice, n = 128, B = 64, is expected at 0.71 (0.65–0.76).
The pilots spent 326 of 1,000 GPU-hours (trained 319, idle 4.50, failed 3.00),
614 left; sweep-1 took 90 min.

#     n   B  steps    expected score  P(best)  spent  status
1   512  32    571  0.74 (0.68–0.79)     0.62   20.0  finished
2   128  64    390  0.71 (0.65–0.76)     0.27   20.0  finished
3  1024  64    390                 –        –   20.0  finished
Failed, out-of-memory: n1024-B1024-s0 (torch.OutOfMemoryError: 81 GiB wanted)

Next
  rlplan recommend sweep-1  how sure this is
  rlplan launch sweep-1     runs it in full
"""
    )


def test_a_sweep_without_a_recommendation_says_so(run: Run, driven: Driven, tmp_path: Path) -> None:
    seeded(tmp_path / "rlplan.db").store.close()
    said = run("sweep")
    assert "sweep-1 ended without a recommendation" in said.out
    assert said.code == 5  # a trial of it has failed
    document = run("sweep", "--format", "json").json
    assert (document["recommendation"], document["ranking"]) == (None, [])
    assert run("sweep", "--format", "csv").out.startswith("rank,rollouts_per_prompt")


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        (
            replace(DONE, failed_trials=1),
            5,
            "one trial has failed; what failed is run again with `rlplan retry sweep-1`",
        ),
        (replace(DONE, failed_trials=3), 5, "3 trials have failed"),
        (replace(DONE, failed_trials=3, all_failed="nan"), 5, "that ran has failed, most of them with: nan"),
        (replace(DONE, interrupted=True), 130, "stopped and its state is saved; go on with `rlplan resume sweep-1`"),
        (NotFoundError("sweep-1 has ended"), 3, "rlplan: sweep-1 has ended"),
        (BudgetError("no pilot fits"), 4, "rlplan: no pilot fits"),
        (StoreError("sweep-1 is being driven"), 2, "rlplan: sweep-1 is being driven"),
    ],
)
def test_exit_codes(run: Run, driven: Driven, database: str, ended: Finished | Exception, code: int, said: str) -> None:
    driven.ended = ended
    ran = run("resume" if code == 3 else "retry" if code == 4 else "sweep")
    assert ran.code == code
    assert said in ran.err.splitlines()[-1]
    assert bool(ran.out) == (code in (0, 5))


def test_the_first_interrupt_is_announced_and_the_second_says_how_to_go_on(
    run: Run, driven: Driven, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(interrupts: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.requested
        signal.raise_signal(signal.SIGINT)

    driven.meanwhile = interrupted
    ran = run("sweep", "--db", database)
    assert ran.code == 130
    assert "updates under way end and are saved" in capfd.readouterr().err
    assert ran.err.splitlines()[-1].endswith(f"go on with `rlplan resume sweep-1 --db {database}`")


def test_a_dry_run_says_where_it_could_run(run: Run, driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    pilots = (PlannedTrial("n512-B32-s0", 512, 32, 40, 20, 280.0),)
    plan = DryRun("plan-1", pilots, 2, 1000.0, 22.5, "each trial of plan-1 needs 64 h100 where 0 GPUs are")
    monkeypatch.setattr(rlplan.commands.sweep, "describe", lambda request: plan)
    said = run("sweep", "--dry-run").out
    assert "It cannot run here: each trial of plan-1 needs 64 h100 where 0 GPUs are\nNothing was started." in said
    assert "\nNext\n  rlplan sweep --ray-address auto  starts it on a Ray cluster\n" in said
    assert (run.json("sweep", "--dry-run")["shortfall"], driven.asked) == (plan.shortfall, ())


def test_ctrl_c_leaves_a_watch_with_the_last_picture(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(tmp_path / "rlplan.db").store.close()  # nobody ends it

    class Impatient(Follower):
        def begin(self, sweep: str) -> None:
            super().begin(sweep)
            raise KeyboardInterrupt

    monkeypatch.setattr("rlplan.live.sweep_running.Follower", Impatient)
    ran = run("status", "--watch")
    assert ran.code == 0
    assert "  rlplan resume sweep-1    goes on with it" in ran.out


def test_pilots_take_as_long_in_a_rehearsed_sweep_as_in_its_plan(run: Run) -> None:
    proposed = run("propose", "--task", "sum-easy", "--budget", "0.02", "--explore").out
    planned = run("sweep", "--dry-run").out
    assert re.findall(r"about ([\d.]+ \w+)\.", proposed)[:1] == re.findall(r"about ([\d.]+ \w+) on", planned)


@pytest.mark.parametrize("command", [("sweep",), ("sweep", "plan-1", "--dry-run")])
def test_a_plan_without_pilots_is_no_sweep_and_what_can_be_run_is_said(run: Run, command: tuple[str, ...]) -> None:
    assert run("propose", "--task", "sum-easy", "--budget", "0.3", "--explore", "--pilot-fraction", "0").code == 0
    ran = run(*command)
    assert (ran.code, ran.out) == (4, "")
    assert re.search("plan-1 has no pilots.*`rlplan launch plan-1`", ran.err)
    assert "--pilot-fraction 0.2" in ran.err
    assert run("status").code == 3
