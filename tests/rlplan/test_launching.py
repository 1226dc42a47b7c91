"""Launching the final run of a sweep from Python, with simulated workers instead of Ray."""

import json
import math
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import BudgetError, InputError, NotFoundError
from planner.store import open_store
from planner.store.finals import Final, ForecastOfFinal, end_of_run, finals_of
from planner.store.read_model import sweep_snapshot
from planner.store.results import ranked_allocations
from planner.store.schema import Decision, Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import sweep_named
from planner.view import TrialState
from rlplan.actions import sweeping
from rlplan.actions.final_run import describe, launch
from rlplan.actions.sweeping import go_on, start
from rlplan.charts.money import final_chart
from rlplan.commands import status
from rlplan.commands.ended import Ended, FinalEnd
from rlplan.commands.sweep import describe as sweeping_as_asked
from rlplan.live.sweep_display import Position, news
from rlplan.reading.beliefs import beliefs
from rlplan.reading.finals import Record, final_of_sweep, final_standing, record_of, record_text
from rlplan.reading.ranked import ranking
from rlplan.reading.recommendation import recommended
from rlplan.reading.story import story
from rlplan.reading.sweep_rows import picture
from rlplan.requests.results import StatusRequest
from rlplan.requests.run import LaunchRequest, ResumeRequest
from rlplan.web.page import section
from rlplan.web.report import write_report
from rlplan.wording.command_lines import Format
from rlplan.wording.screen import Invocation
from runner.ports.backend import Point
from runner.ports.executor import Event, Progress
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import rows, spent_of
from tests.rlplan.test_screens import next_of
from tests.rlplan.test_sweeping import Simulated, Stopping, interrupted, request, simulate

pytestmark = pytest.mark.usefixtures("simulated_workers")


@pytest.fixture(scope="module")
def launched(swept_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database of a sweep with its final run, which has ended; tests only read it."""
    folder = tmp_path_factory.mktemp("launched")
    shutil.copytree(swept_folder, folder, dirs_exist_ok=True)
    database = str(folder / "rlplan.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        simulate(patch)
        finished = launch(LaunchRequest(validations=8, db=database))
    assert (finished.sweep, finished.interrupted, finished.failed_trials) == ("sweep-1-final", False, 0)
    return database


def test_sweeps_of_one_plan_share_its_budget_and_say_so(swept_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(swept_folder, tmp_path, dirs_exist_ok=True)
    database = str(tmp_path / "rlplan.db")
    again = request(task=None, budget=None, plan="plan-1", db=database)
    (said,) = [note for note in sweeping_as_asked(again).notes if "sweep-1" in note]
    assert said.startswith("other sweeps of plan-1 have spent sweep-1 0.")
    start(again)
    planned = describe(LaunchRequest(db=database))
    assert any("other sweeps of plan-1 have spent sweep-1 0." in note for note in planned.notes)
    with open_store(database, read_only=True) as store, store.read() as session:
        spent = [sweep_snapshot(session, name).spent_gpu_hours for name in ("sweep-1", "sweep-2")]
    assert planned.sweep == "sweep-2"
    assert min(spent) > 0
    assert planned.run.length.gpu_hours + sum(spent) <= planned.plan.budget_gpu_hours
    with sqlite3.connect(database) as connection:  # as if the first had spent it all
        connection.execute("UPDATE segments SET charged_gpu_hours = 0.5 WHERE id = 1")
    with pytest.raises(BudgetError, match=r"nothing is left of the 0\.5 GPU-hours .*sweep-1 0\.\d+ of its 0\.5"):
        describe(LaunchRequest(db=database))
    with pytest.raises(BudgetError, match="nothing is left: make a plan with a larger budget"):
        start(again)


def test_a_final_run_that_has_ended_is_where_its_answer_leads(run: Run, launched: str) -> None:
    assert next_of(run("recommend", "--db", launched).out)[0][:3] == ["rlplan", "status", "sweep-1-final"]
    whole = run("recommend", "--explain", "--db", launched).text
    assert "sweep-1-final is its final run." in whole
    other = run("recommend", "--explain", "--target", "0.1", "--db", launched).text
    assert "is its final run" not in other
    again = run("resume", "--db", launched)
    assert (again.code, "retry" in again.err) == (3, False)
    with open_store(launched) as store:
        money, final = picture(store, "sweep-1-final").money, final_of_sweep(store, "sweep-1-final")
    assert final is not None
    assert final.end is not None
    assert final.end["left_gpu_hours"] == pytest.approx(money.pilot_gpu_hours - money.spent)


def open_plan(database: str, name: str | None) -> Plan:
    with open_store(database, read_only=True) as store:
        return store.plan(name)


def sizes(database: str) -> tuple[int, int]:
    """Return n and B of the final run."""
    trial = rows(database, Trial)[-1]
    return trial.rollouts_per_prompt, trial.prompts_per_batch


def test_the_recommendation_is_run_to_its_end_within_the_plans_budget(launched: str) -> None:
    pilots, final = rows(launched, Sweep)
    assert (final.status, final.policy) == (SweepStatus.FINISHED, "final")
    (row,) = rows(launched, Final)
    with open_store(launched, read_only=True) as store, store.read() as session:
        stands = sweep_snapshot(session, final.name)
        spent = stands.spent_gpu_hours + sweep_snapshot(session, pilots.name).spent_gpu_hours
        (trial,) = stands.trials
        assert trial.state is TrialState.FINISHED
        assert stands.segments[trial.id][-1].to_step == end_of_run(session, row)
        assert spent <= stands.plan.budget_gpu_hours
        assert [row.id for _, row in finals_of(session, pilots.id)] == [final.id]


def test_the_promise_is_the_recommendations_and_every_validation_adds_a_forecast(launched: str, swept: str) -> None:
    planned = describe(LaunchRequest(validations=8, db=swept))
    assert rows(swept, Final) == []
    (promised,) = rows(launched, Final)
    assert promised.promised_score == planned.promise.end.score
    assert promised.promised_low < promised.promised_score < promised.promised_high
    ended = rows(launched, Decision)[-1].seen  # it began without a validation of its own
    again = next(row for row in rows(launched, ForecastOfFinal) if row.step == ended["restated_step"])
    assert (again.end_low, again.end_high) == (ended["restated_low"], ended["restated_high"])
    assert (ended["promised_low"], ended["promised_high"]) == (promised.promised_low, promised.promised_high)
    assert promised.promised_band == planned.promise.rows
    forecasts = rows(launched, ForecastOfFinal)
    steps = [forecast.step for forecast in forecasts]
    assert steps == sorted(set(steps))
    assert all(each.end_low <= each.end_score <= each.end_high for each in forecasts)
    with open_store(launched, read_only=True) as store, store.read() as session:
        assert steps[-1] == end_of_run(session, promised)
        lines = news(session, 2, picture(store, "sweep-1-final"), Position(0, 0, frozenset(), 0, 0))
    validated = [line for line in lines if line.startswith("validation: ")]
    assert len(validated) == len(forecasts) + 1  # the base model's score tells nothing of the end
    assert max(map(len, validated)) <= 80  # of a log
    (ended,) = [each for each in rows(launched, Decision) if each.action == "ended"]
    assert f"ended with {forecasts[-1].score:.3f}" in ended.reason


def test_a_final_run_that_was_interrupted_is_what_resume_goes_on_with(swept: str) -> None:
    interrupts = Stopping()
    stopped = launch(LaunchRequest(validations=8, db=swept), interrupts=interrupts, began=interrupts.began)
    assert stopped.interrupted
    with pytest.raises(InputError, match=r"was launched already \(interrupted\): `rlplan resume sweep-1-final`"):
        launch(LaunchRequest(db=swept))
    finished = go_on(ResumeRequest(db=swept))
    assert (finished.sweep, finished.interrupted) == ("sweep-1-final", False)
    (row,) = rows(swept, Final)
    with open_store(swept, read_only=True) as store, store.read() as session:
        assert rows(swept, ForecastOfFinal)[-1].step == end_of_run(session, row)


def test_what_has_ended_is_not_launched_again_and_what_another_costs_must_be_left(
    launched: str, tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError, match=r"`rlplan launch sweep-1 --from-best` goes on with what is left"):
        launch(LaunchRequest(db=launched))
    cells = {(each.rollouts_per_prompt, each.prompts_per_batch) for each in rows(launched, Trial)}
    n, B = min(cells - {sizes(launched)})
    shutil.copytree(Path(launched).parent, tmp_path, dirs_exist_ok=True)
    database, another = str(tmp_path / "rlplan.db"), {"allocation": f"n={n},B={B}", "validations": 1}
    for left in (1e-6, 0.0):
        with sqlite3.connect(database) as connection:  # which the final run did not get
            budget = spent_of(launched) + left
            connection.execute(f"UPDATE plans SET budget_gpu_hours = {budget}, final_gpu_hours = 0")
        with pytest.raises(BudgetError, match="needs at least" if left else "nothing is left"):
            launch(LaunchRequest(**another, db=database))
    assert len(rows(database, Final)) == 1


def test_without_a_recommendation_nothing_is_launched(database: str) -> None:
    interrupted(database)
    with pytest.raises(NotFoundError, match="has no recommendation yet"):
        launch(LaunchRequest(db=database))


class Altered(Simulated):
    """Has what trainers say of their updates altered."""

    def wait(self, seconds: float) -> Sequence[Event]:
        return [
            replace(event, points=tuple(map(self.altered, event.points))) if isinstance(event, Progress) else event
            for event in super().wait(seconds)
        ]

    def altered(self, point: Point) -> Point:
        return point


class Falling(Altered):
    """Has every score between two shares of the run far below what the world would give."""

    low, high = 0.5, 2.0
    steps = 0  # of the run

    def altered(self, point: Point) -> Point:
        fallen = self.low < point.optimizer_step / self.steps <= self.high
        return replace(point, score=0.05) if fallen and point.score is not None else point


def fallen_from_the_beginning(monkeypatch: pytest.MonkeyPatch, executor: type[Falling] = Falling) -> None:
    monkeypatch.setattr(Falling, "low", -1.0)
    monkeypatch.setattr(Falling, "steps", 1_000_000)
    monkeypatch.setattr(sweeping, "RayExecutor", executor)


@pytest.mark.parametrize(("high", "warned"), [(2.0, True), (0.7, False)])
def test_a_fall_is_warned_of_until_the_score_comes_back(
    swept: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], high: float, warned: bool
) -> None:
    monkeypatch.setattr(Falling, "high", high)
    monkeypatch.setattr(Falling, "steps", describe(LaunchRequest(validations=20, db=swept)).run.length.steps)
    monkeypatch.setattr(sweeping, "RayExecutor", Falling)
    ended = launch(LaunchRequest(validations=20, db=swept))
    told = [
        (each.action, each.seen["rule"]) for each in rows(swept, Decision) if each.action in ("warning", "all-clear")
    ]
    assert ("warning", "fall") in told
    assert (("all-clear", "fall") in told) is not warned
    with open_store(swept, read_only=True) as store, store.read() as session:
        standing = final_standing(session, sweep_named(session, "sweep-1"))
    assert standing is not None
    assert standing.goes_wrong is warned
    assert Ended(ended, swept).emit(Format.TABLE, Invocation(())) == (5 if warned else 0)
    printed = capsys.readouterr()
    assert ("WARNING, fall: the mean of the last 2 validations" in printed.out) is warned
    assert ("sweep-1-final ended with a warning" in printed.err) is warned


def test_what_ends_a_launch_can_be_typed(launched: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(launched, read_only=True) as store:
        final = final_of_sweep(store, "sweep-1-final")
    assert final is not None
    FinalEnd(final).emit(Format.TABLE, Invocation((), launched))
    said = capsys.readouterr().out
    assert said.count("GPU-hours") == 1  # what it took is said once
    assert [run(*words).code for _, *words in next_of(said)] == [0, 0]


def test_report_and_page_begin_with_the_final_run_and_its_promise(launched: str, tmp_path: Path) -> None:
    page = write_report(tmp_path / "report.html", launched, "sweep-1").read_text()
    assert page.index("<h2>Final run</h2>") < page.index("<h2>Recommendation</h2>")
    assert 'data-chart="final"' in page
    with open_store(launched, read_only=True) as store:
        told = story(store, "sweep-1")
    assert told.final is not None
    first = section("answer", told, None)
    assert told.final.ending is not None
    assert first.index("sweep-1-final: ") < first.index(escape(told.final.ending[1:]))
    chart = final_chart(told.final)
    assert chart.text.startswith("the final run ended with")
    named = {trace["name"]: trace for trace in chart.figure["data"] if "name" in trace}
    assert named.keys() == {"promised, 90 %", "promised", "scores"}
    assert len(named["scores"]["y"]) == len(told.final.scores) >= 8
    running = replace(told.final, status="running")
    assert final_chart(running).figure["data"][-1]["error_y"]["array"][0] > 0


def test_a_broken_promise_is_warned_of_and_counted(swept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fallen_from_the_beginning(monkeypatch)
    launch(LaunchRequest(sweep="sweep-1", validations=8, db=swept))
    (warning,) = [each for each in rows(swept, Decision) if each.action == "warning" and each.seen["rule"] == "promise"]
    assert "02 or more below the promised" in warning.reason
    assert "rlplan launch sweep-1 --allocation n=" in warning.reason
    with open_store(swept, read_only=True) as store, store.read() as session:
        record = record_of(session)
    assert record is not None
    assert (record.finals, record.held) == (1, 0)
    assert record_text(record).startswith("The one final run that ended did not end within the 90 % interval")
    assert record.typical_price == pytest.approx(1.0, abs=0.5)
    assert Record(2, 2, (0.9, 1.3)).typical_price == pytest.approx(1.1)


class Interrupting(Falling):
    """Has the driver interrupted once an allocation was said to promise more."""

    stops: Stopping

    def wait(self, seconds: float) -> Sequence[Event]:
        self.stops.requested = self.stops.requested or self.advised()
        return super().wait(seconds)

    @staticmethod
    def advised() -> bool:
        return any(each.action == "switch" for each in rows("rlplan.db", Decision))


def test_nothing_switches_by_itself_and_switching_runs_what_promises_more(
    swept: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFoundError, match="has no final run to switch from"):
        launch(LaunchRequest(switch=True, db=swept))
    monkeypatch.setattr(Interrupting, "stops", Stopping(), raising=False)
    fallen_from_the_beginning(monkeypatch, Interrupting)
    stopped = launch(LaunchRequest(validations=40, db=swept), interrupts=Interrupting.stops)
    assert stopped.interrupted
    advice = [each for each in rows(swept, Decision) if each.action == "switch"][-1]
    status.answer(StatusRequest("sweep-1", db=swept)).emit(Format.TABLE, Invocation((), swept))
    assert "GPU-hours that are left, n = " in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(sweeping, "RayExecutor", Simulated)
    switched = launch(LaunchRequest(validations=8, switch=True, db=swept))
    assert switched.sweep == "sweep-1-final-2"
    assert sizes(swept) == (advice.seen["n"], advice.seen["B"])
    former, other = rows(swept, Sweep)[1:]
    assert (former.status, other.status) == (SweepStatus.FINISHED, SweepStatus.FINISHED)
    assert spent_of(swept) > 0
    with pytest.raises(NotFoundError, match="nothing is to be switched to"):
        launch(LaunchRequest(switch=True, db=swept))


def test_what_asks_for_a_recommendation_gets_that_of_the_pilots(launched: str) -> None:
    with open_store(launched, read_only=True) as store:
        found = beliefs(store, "sweep-1-final").recommended
    assert found is not None
    assert found.answer == recommended(launched, "sweep-1-final").answer == recommended(launched, "sweep-1").answer
    asked = [ranking(launched, name) for name in (None, "sweep-1", "sweep-1-final", "plan-1")]
    assert {each.sweep for each in asked} == {"sweep-1"}
    assert len({each.ranking for each in asked}) == 1
    assert {recommended(launched, name).sweep for name in (None, "sweep-1-final")} == {"sweep-1"}
    with open_store(launched, read_only=True) as store, store.read() as session:
        assert {row["sweep"] for row in ranked_allocations(session)} == {"sweep-1"}


class Timed(Altered):
    """Says of each update what our own trainer says."""

    def altered(self, point: Point) -> Point:
        metrics: dict[str, Any] = {"response_tokens": 5.0, "generated_rollouts": 64.0, "trained_rollouts": 64.0}
        metrics["seconds"] = {"generate": 0.25, "train": 0.5}
        return replace(point, metrics={**point.metrics, **metrics})


def test_what_the_updates_of_a_final_run_took_prices_the_next_plan(swept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(swept, read_only=True) as store:
        assert store.cost_records() == []
    monkeypatch.setattr(sweeping, "RayExecutor", Timed)
    launch(LaunchRequest(validations=8, db=swept))
    with open_store(swept, read_only=True) as store:
        records = store.cost_records(gpu="cpu")
    assert {each.trial_id for each in records} == {rows(swept, Trial)[-1].id}
    assert all(each.seconds == {"generate": 0.25, "train": 0.5} for each in records)
    interrupted(swept)
    told = [each["source"] for each in rows(swept, Plan)[-1].assumptions if each["what"] == "cost of a step"]
    assert len(told) == 1
    assert "of sweep-1-final, 1 cpu" in told[0]


class Diverging(Altered):
    """Has the loss of one update be no number, as where an update is skipped and the run goes on."""

    spoilt = False

    def altered(self, point: Point) -> Point:
        loss = 0.1 if self.spoilt or not point.optimizer_step else math.nan
        self.spoilt = self.spoilt or point.optimizer_step > 0
        return replace(point, metrics={**point.metrics, "loss": loss, "grad_norm": 1.0})


def test_a_loss_that_is_no_number_is_warned_of_once(
    swept: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweeping, "RayExecutor", Diverging)
    ended = launch(LaunchRequest(validations=8, db=swept))
    told = [each for each in rows(swept, Decision) if each.action == "warning"]
    (reason,) = [each.reason for each in told if each.seen["rule"] == "not-finite"]
    assert "--from-best --learning-rate " in reason
    assert Ended(ended, swept).emit(Format.JSON, Invocation(())) == 5
    warnings = json.loads(capsys.readouterr().out)["final"]["warnings"]
    (said,) = [each["said"] for each in warnings if each["rule"] == "not-finite"]
    assert "loss is not a finite number in update" in said
