"""`rlplan recommend`: what it prints, what it refuses, and that its command starts the run that it promises."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import select

from planner.store import open_store
from planner.store.schema import Recommendation, Sweep
from planner.view import Configuration
from rlplan.actions.final_run import describe, store_only
from rlplan.reading.launch_line import Final, launch
from rlplan.requests.run import LaunchRequest
from runner.ports.trial import TrialConfig
from runner.storage.mirror import Mirror
from runner.sweep.conclusions import stored_board
from runner.sweep.state import SweepState
from runner.trainers.catalogue import newest_step
from tests.rlplan.conftest import Run
from tests.rlplan.recommend_sweeps import PILOTED, SWEEP, ended, trials


def test_another_target_and_a_whole_budget(run: Run, tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db")
    plain = run.json("recommend")
    more = run.json("recommend", "--target", "100")
    assert more["target_gpu_hours"] == 100
    assert more["recommendation"]["update_steps"] > plain["recommendation"]["update_steps"]
    away = run.json("recommend", "--target", PILOTED)["launch"]["note"]
    assert away == f"it starts from the base model; the folder {tmp_path / 'trials'} is not there"
    whole = run.json("recommend", "--budget", "1,000")
    assert whole["target_gpu_hours"] == pytest.approx(1000 - plain["spent_gpu_hours"])


def test_the_command_launches_what_is_recommended(run: Run, tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db")
    found = run.json("recommend")
    assert found["launch"]["arguments"] == ["rlplan", "launch", SWEEP]
    planned = run(*found["launch"]["arguments"][1:], "--dry-run", "--format", "json")
    assert planned.code == 0, planned.err
    for size in ("rollouts_per_prompt", "prompts_per_batch", "learning_rate"):
        assert planned.json[size] == found["recommendation"][size]
    elsewhere = run.json("recommend", "--target", "100", "--db", str(tmp_path / "rlplan.db"))
    n, B = (elsewhere["recommendation"][size] for size in ("rollouts_per_prompt", "prompts_per_batch"))
    assert elsewhere["launch"]["command"] == f"rlplan launch {SWEEP} --allocation n={n},B={B}"
    tmp_path.joinpath("rlplan.db").rename(tmp_path / "other.db")
    assert run.json("recommend", "--db", "other.db")["launch"]["command"] == f"rlplan launch {SWEEP} --db other.db"


def test_an_answer_says_of_when_it_is_and_one_that_cannot_be_read_is_worked_out(run: Run, tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db")
    stored = run.json("recommend")
    assert (stored["source"], stored["so_far"]) == ("stored", False)
    assert "the answer stored at its end, 2026-01-01 " in run("recommend", "--explain").text
    assert run.json("recommend", "--target", "0.6")["source"] == "now"
    with open_store(tmp_path / "rlplan.db") as store, store.write() as session:
        row = session.scalars(select(Recommendation)).one()
        row.details = {"reason": row.details["reason"]}
    again = run.json("recommend")
    assert (again["source"], again["made_at"]) == ("now", None)
    assert "no answer is stored that can be read" in run("recommend", "--explain").text
    for figure in ("rollouts_per_prompt", "prompts_per_batch", "update_steps", "expected_score", "score_low"):
        assert again["recommendation"][figure] == pytest.approx(stored["recommendation"][figure])


def test_a_pilot_becomes_the_final_run(run: Run, tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db", saved=True)
    found = run.json("recommend", "--target", PILOTED)
    launch, chosen = found["launch"], found["recommendation"]
    pilot = launch["continues"]
    known = {trial.name: trial for trial in trials(tmp_path / "rlplan.db")}[pilot["trial"]]
    assert known.cell == (chosen["rollouts_per_prompt"], chosen["prompts_per_batch"])
    assert (pilot["step"], pilot["folder"]) == (known.step, str(tmp_path / "trials" / known.name))
    assert launch["gpu_hours"] + pilot["gpu_hours"] == pytest.approx(chosen["gpu_hours"])


def test_a_pilot_that_has_gone_all_the_way_is_the_final_run(run: Run, tmp_path: Path) -> None:
    path = ended(tmp_path / "rlplan.db", saved=True)
    board = board_of(path)
    longest = max(board.trials.values(), key=lambda trial: trial.step)
    there = launch(board, SWEEP, str(path), Final(longest.configuration, longest.step, longest.gpu_hours_spent))
    assert there.command is None
    assert "it is the final run" in there.note
    refused = run("recommend", "--target", str(longest.gpu_hours_per_step * 3))
    assert refused.code == 4
    assert "do not pay for one update step of any configuration beyond its pilot" in refused.err


@pytest.mark.parametrize("there", [True, False])
def test_a_pilot_whose_folder_is_gone_becomes_the_final_run_from_its_storage(
    run: Run, tmp_path: Path, there: bool
) -> None:
    path, storage = ended(tmp_path / "rlplan.db", saved=True), tmp_path / "bucket" / SWEEP
    with open_store(path) as store, store.write() as session:
        row = session.scalars(select(Sweep)).one()
        row.config = {**row.config, "storage": f"file://{storage}"}
    board = board_of(path)
    longest = max(board.trials.values(), key=lambda trial: trial.step)
    facts = board.facts[longest.trial]
    assert facts.storage is not None
    assert Mirror(facts.storage, facts.folder, TrialConfig.model_validate(facts.config)).store(1)[0]
    shutil.rmtree(facts.folder.parent)
    if not there:
        shutil.rmtree(storage)
    n, B, _ = longest.configuration
    asked = LaunchRequest(db=str(path), allocation=f"n={n},B={B}")
    planned = describe(asked).run
    assert planned.from_step == (longest.step if there else 0)
    if not there:
        return
    name = store_only(asked)
    with open_store(path, read_only=True) as store, store.read() as session:
        final = stored_board(session, name)
    (trial,) = final.trials.values()
    config, own = TrialConfig.model_validate(final.facts[trial.trial].config), final.facts[trial.trial]
    assert (trial.step, newest_step(config, own.folder)) == (longest.step, longest.step)
    elsewhere = tmp_path / "another-machine" / trial.name  # whose worker fetches what the launch has stored
    elsewhere.mkdir(parents=True)
    assert Mirror(str(own.storage), elsewhere, config).fetch(trial.step) == []
    assert newest_step(config, elsewhere) == longest.step


def board_of(path: Path) -> SweepState:
    with open_store(path, read_only=True) as store, store.read() as session:
        return stored_board(session, SWEEP)


def test_a_pilot_whose_data_are_too_short_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = board_of(ended(tmp_path / "rlplan.db", saved=True))
    longest = max(board.trials.values(), key=lambda trial: trial.step)
    chosen = Final(longest.configuration, update_steps=10 * longest.step, gpu_hours=1.0)
    found = launch(board, SWEEP, "rlplan.db", chosen)
    assert found.continues is not None
    assert found.note.startswith(f"it goes on from step {longest.step:,} of {found.continues.trial}, whose ")

    def lengthened(config: TrialConfig, steps: int) -> TrialConfig:
        """Stand in for a trainer whose order of problems depends on how long its data are."""
        return config.model_copy(update={"seed": steps})

    monkeypatch.setattr("rlplan.reading.launch_line.reaching", lengthened)
    found = launch(board, SWEEP, "rlplan.db", chosen)
    assert found.continues is None
    assert found.note == "it starts from the base model, for it needs longer data than its pilot had"


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
