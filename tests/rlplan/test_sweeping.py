"""Starting, resuming and retrying sweeps from Python, with simulated workers instead of Ray."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from budgets.errors import ClusterLostError, InputError, NotFoundError, UnknownNameError
from planner.config import build_request
from planner.policy.champion import champion_of
from planner.proposals import propose
from planner.store import open_store
from planner.store.schema import Charge, Plan, Sweep, SweepStatus, Trial
from planner.view import TrialState
from rlplan import exits
from rlplan.actions import sweeping
from rlplan.actions.configuration import load_configuration
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweep_request import plan_meant, spec_of
from rlplan.actions.sweeping import go_on, start
from rlplan.commands.sweep import describe
from rlplan.exits import ExitCode, exit_code
from rlplan.requests.run import ResumeRequest, RetryRequest, SweepRequest
from runner.ports.executor import Event
from runner.ports.trial import Costs, Failures, SimulationChoice
from runner.simulation.world import course_of
from runner.sweep.fingerprint import configuration_fingerprint
from runner.sweep.plan_rows import configuration_of
from runner.sweep.spec import SweepSpec
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import rows
from tests.runner.tasks.checkpoints import save_checkpoint
from tests.simulated.executor import SimulatedExecutor

pytestmark = pytest.mark.usefixtures("simulated_workers")

COSTS = Costs(seconds_per_update=0.02, seconds_per_rollout=0.0011, start_up_seconds=3.0, seconds_per_answer=0.0001)
QUIET_SECONDS = 30.0
COMMAND = "train {rollouts_per_prompt} {prompts_per_batch} {learning_rate} {to_step}"
ON_A_GPU = {
    "task": None,
    "budget": 5000,
    "further": {
        "workload.model": ("--model", "qwen2.5-0.5b"),
        "hardware.gpu": ("--gpu", "h100"),
        "hardware.gpus_per_trial": ("--gpus-per-trial", 1),
    },
}


class Simulated(SimulatedExecutor):
    """Takes what the executor on Ray takes."""

    made: list[tuple[Any, ...]] = []  # noqa: RUF012

    def __init__(self, folder: Path, workers: int, tag: str, address: str | None, *need: float) -> None:
        super().__init__(workers)
        self.made.append((folder, workers, tag, address, *need))

    def wait(self, seconds: float) -> Sequence[Event]:
        """Let time pass up to the next event: half a second at a time, most of a driver's turns have nothing to do."""
        return super().wait(QUIET_SECONDS if self._running else seconds)


def simulate(patch: pytest.MonkeyPatch, executor: type[Simulated] = Simulated) -> None:
    """Let sweeps run on simulated workers instead of Ray."""
    patch.setattr(sweeping, "RayExecutor", executor)


def request(**changes: Any) -> SweepRequest:
    failures = changes.pop("failures", {})
    world = SimulationChoice(costs=COSTS, failures=Failures(**failures))
    usual = {"task": "sum-easy", "budget": 0.1, "policy": "full", "simulation": world.model_dump(mode="json")}
    few = {"pilot.most_pilots": ("pilot.most_pilots", 3)}  # all else about a sweep is seen with three, too
    explores = {} if changes.get("plan") or changes.get("budget", 0.1) is None else {"explore": True}
    return SweepRequest(**(usual | explores | ({"further": few} if changes.get("task", "its own") else {}) | changes))


def swept_in(folder: Path) -> Path:
    """Run a sweep to its end in a folder, with its database, and return that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        simulate(patch)
        start(request(budget=0.5, db=str(folder / "rlplan.db")))
    return folder


def stored(database: str) -> Any:
    return next(reversed(rows(database, Sweep)), None)


def trials(database: str) -> dict[str, Trial]:
    return {trial.name: trial for trial in rows(database, Trial)}


class Stopping(Interrupts):
    """Interrupts as soon as the sweep has begun."""

    def began(self, _: str) -> None:
        self.requested = True


def interrupted(database: str, **changes: Any) -> None:
    interrupts = Stopping()
    finished = start(request(**changes, db=database), interrupts=interrupts, began=interrupts.began)
    assert finished.interrupted


def test_propose_and_sweep_in_one_go(database: str, tmp_path: Path) -> None:
    names: list[str] = []
    (tmp_path / "rlplan.toml").write_text("[cluster]\nstart_seconds = 900\naccelerator = 'H100'\n")
    finished = start(request(budget=0.5, db=database), began=names.append)
    assert names == [finished.sweep] == ["sweep-1"]
    assert not finished.interrupted
    assert finished.failed_trials == 0
    sweep = stored(database)
    assert sweep.status is SweepStatus.FINISHED
    assert finished.spent_gpu_hours <= sweep.config["pilot_gpu_hours"] == pytest.approx(0.2)
    assert sweep.config["folder"] == str(tmp_path / "rlplan-sweeps" / "sweep-1")
    ((folder, _, tag, address, cpus, gpus, nodes, patience, placement),) = Simulated.made
    assert (str(folder), address, cpus, gpus, nodes, patience) == (sweep.config["folder"], None, 1.0, 0.0, 1, 900.0)
    assert placement.labels == {"ray.io/accelerator-type": "H100"}
    assert tag.startswith("rlplan-")
    assert all(trial.state is TrialState.FINISHED for trial in trials(database).values())


def test_two_sweeps_never_share_a_folder(tmp_path: Path) -> None:
    """A database that was removed, or another one, has had a sweep-1 too, with its own workers and checkpoints."""
    mine, others = tmp_path / "runs", tmp_path / "runs" / "sweep-1"
    (others / "workers").mkdir(parents=True)
    left = {"worker": "gone", "seconds": 900.0, "slots": 1, "segment": None}
    (others / "workers" / "gone.json").write_text(json.dumps(left))
    used = []
    for name in ("one.db", "another.db"):
        database = str(tmp_path / name)
        finished = start(request(folder=mine, db=database))
        assert finished.sweep == "sweep-1"
        used.append(Path(stored(database).config["folder"]).name)
        assert "gone" not in {charge.worker for charge in rows(database, Charge)}
    assert used == ["sweep-1-2", "sweep-1-3"]


def test_a_folder_that_cannot_be_made_is_refused_before_a_sweep_is_stored(database: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone" / "far")
    for place in ("file", "nowhere"):
        with pytest.raises(InputError, match="give another --folder"):
            start(request(folder=tmp_path / place, db=database))
    assert stored(database) is None


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"plan": "plan-1"}, InputError, "a plan (plan-1) and what makes a new one"),
        ({"policy": "asah"}, UnknownNameError, "unknown policy 'asah': did you mean 'asha'"),
        ({"policy": "rlplan", "search": "cmaes"}, InputError, "cmaes"),
        ({"workers": 0}, InputError, "--workers"),
        ({"retries": -1}, InputError, "--retries"),
        ({"task": None, "budget": 5000, "simulation": None}, InputError, "--gpus-per-trial 1"),
        (ON_A_GPU, InputError, "each trial of plan-1 needs 1 h100 where 0 GPUs are: join a larger cluster"),
        (ON_A_GPU | {"simulation": None}, InputError, "is not known: give --problems FILE.jsonl and --model"),
        (
            ON_A_GPU | {"simulation": None, "problems": "mine.jsonl"},
            InputError,
            "--problems needs --model too",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_a_sweep_is_stored(
    database: str, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as refusal:
        start(request(**changes, db=database))
    assert message in str(refusal.value)
    if Path(database).exists():
        assert stored(database) is None
    assert Simulated.made == []


@pytest.mark.parametrize(
    ("command", "recipes", "message"),
    [
        ("train --steps {to_step}", None, "the plan, n"),
        (COMMAND, "easy,dapo", "compares recipes (easy, dapo), and the trainer's command names no {recipe}"),
        (f"{COMMAND} {{recipe.name}}", "easy,dapo", None),
        (COMMAND, None, None),
    ],
)
def test_a_trainer_that_would_not_train_what_is_compared_is_refused(
    database: str, tmp_path: Path, command: str, recipes: str | None, message: str | None
) -> None:
    (tmp_path / "mine.toml").write_text(f"command = '{command}'\nresume = ''\n")
    asked = SweepRequest(task="sum-easy", budget=0.5, recipes=recipes, trainer="mine.toml", db=database)
    if message is None:
        assert describe(asked).trials
        return
    with pytest.raises(InputError) as refusal:
        start(asked)
    assert message in str(refusal.value)
    assert not Path(database).exists()


OF_PRIME_RL = """name = "prime-rl"
approximate = true
[trainer.options]
train_gpus = 1
environment.taskset.id = "wordle"
"""
OF_TRL = """name = "trl"
[trainer.options]
environment = "games:Wordle"
"""


@pytest.mark.parametrize(("trainer", "gpus", "problems"), [(OF_PRIME_RL, 4, False), (OF_TRL, None, True)])
def test_an_environment_of_the_trainers_is_swept_with_problems_only_where_it_takes_them(
    database: str, tmp_path: Path, trainer: str, gpus: int | None, problems: bool
) -> None:
    (tmp_path / "rlplan.toml").write_text(f"[task]\nprompt_length = 16\n[trainer]\n{trainer}")
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"prompt": "what is {n}", "answer": "{n}"}}\n' for n in range(30)))
    further = {
        "workload.model": ("--model", "qwen2.5-7b"),
        "workload.response_tokens": ("--response-tokens", 8),
        "hardware.gpu": ("--gpu", "h100"),
    }
    further |= {"hardware.gpus_per_trial": ("--gpus-per-trial", gpus)} if gpus else {}
    asked = {"budget": 500, "further": further, "config": tmp_path / "rlplan.toml", "db": database}
    asked |= {"problems": str(tmp_path / "rows.jsonl")} if problems else {}
    plan = describe(SweepRequest(**asked, model=str(save_checkpoint(tmp_path / "model"))))
    assert plan.trials
    assert any("problems, rewards and scores are the environment's" in note for note in plan.notes) is not problems
    if not problems:
        with pytest.raises(InputError, match=r"give --model, and \[task\] prompt_length"):
            describe(SweepRequest(**asked))


def test_a_stand_in_costs_what_the_plan_says_in_scaled_time(database: str) -> None:
    """A real second counts for many, prices are the plan's, and none of this machine's GPUs is occupied."""
    further = {"trainer.options": ("rlplan.toml", {"time_scale": 600}), "trainer.name": ("rlplan.toml", "standin")}
    asked = {"task": None, "budget": 5000, "pilot_fraction": 0.2, "simulation": None}
    told = describe(request(**asked, trainer="standin", db=database))
    assert sum(trial.gpu_hours for trial in told.trials) <= told.pilot_gpu_hours
    assert not Path(database).exists()
    timed = request(**asked, further=further, db=database)
    scaled = describe(timed)
    assert scaled.trials == told.trials
    assert scaled.shortfall is None
    assert scaled.wall_hours == pytest.approx(told.wall_hours / 600)
    plan = plan_meant(timed)
    spec = spec_of(timed, plan)
    for each in [each for each in plan.candidates if each.pilot_steps]:
        config = spec.trial(configuration_of(each), each.learning_rate, 0)
        took = course_of(config).seconds(40) / 40 / 600  # real seconds of a step
        assert 0.6 < took * spec.resources.slots / 3600 / each.pilot_price < 1.6


def test_a_trial_splits_its_gpus_as_its_row_is_priced(database: str) -> None:
    further = {**ON_A_GPU["further"], "recipe.name": ("--recipe", "scalerl"), "hardware.gpus": ("--gpus", 16)}
    further |= {"hardware.gpus_per_trial": ("--gpus-per-trial", 16), "pilot.gpus": ("--pilot-gpus", 8)}
    asked = request(**ON_A_GPU | {"further": further}, trainer="standin", db=database)
    flags = {"budget.gpu_hours": ("--budget", 5000), "proposal.explore": ("--explore", True), **further}
    proposal = propose(build_request(load_configuration(flags=flags)))
    plan = plan_meant(asked)
    spec = spec_of(asked, plan)
    for row, priced in zip(plan.candidates, proposal.candidates, strict=True):
        placement = priced.cell.cost.placement
        config = spec.trial(configuration_of(row), row.learning_rate, 0)
        for machine, gpus in ((config.machine, 8), (spec.as_final(config).machine, 16)):
            assert machine.gpus == gpus
            assert machine.training_share == placement.trainer_gpus / 16


def test_an_interrupted_sweep_goes_on_and_a_finished_one_says_so(database: str) -> None:
    interrupted(database)
    assert stored(database).status is SweepStatus.INTERRUPTED
    with pytest.raises(InputError, match="--workers"):
        go_on(ResumeRequest(db=database, workers="many"))
    finished = go_on(ResumeRequest(db=database, workers=5))
    assert (finished.sweep, finished.interrupted) == ("sweep-1", False)
    assert [made[1] for made in Simulated.made][-1] == 5
    with pytest.raises(NotFoundError, match=r"sweep-1 has ended \(finished\): nothing is left to do"):
        go_on(ResumeRequest("sweep-1", db=database))
    with pytest.raises(NotFoundError, match="there is no sweep 'sweep-7'"):
        go_on(ResumeRequest("sweep-7", db=database))


def test_a_sweep_that_an_older_version_based_on_earlier_ones_is_shown_and_goes_on(database: str, run: Run) -> None:
    interrupted(database)
    with open_store(database) as store, store.write() as session:
        (sweep,) = session.scalars(select(Sweep))
        sweep.config = {**sweep.config, "learnt": {"sources": [{"name": "sweep-0", "mean": [0.5]}], "about": {}}}
        sweep.config_hash = configuration_fingerprint(SweepSpec.model_validate(sweep.config))
        plan = session.scalars(select(Plan)).one()
        plan.config = {**plan.config, "learnt": sweep.config["learnt"]["sources"]}
        child = "id INTEGER PRIMARY KEY, sweep_id INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE"
        session.execute(text(f"CREATE TABLE experiences ({child}, content JSON NOT NULL)"))
        session.execute(text("INSERT INTO experiences (sweep_id, content) VALUES (1, '{}')"))
    assert run.json("status")["status"] == "interrupted"
    assert not go_on(ResumeRequest(db=database)).interrupted
    assert stored(database).config["learnt"]["sources"][0]["name"] == "sweep-0"
    assert run.json("recommend")["sweep"] == "sweep-1"
    assert run("launch", "--dry-run").code == 0


@pytest.mark.parametrize("what", ["code_fingerprint", "configuration_fingerprint"])
def test_changed_code_or_files_are_refused_unless_accepted(
    database: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    interrupted(database)
    other: Callable[..., str] = lambda *_: "other"  # noqa: E731
    monkeypatch.setattr(sweeping, what, other)
    with pytest.raises(InputError, match=r"sweep-1 was begun with other (code|files).*--accept-changes"):
        go_on(ResumeRequest(db=database))
    assert stored(database).status is SweepStatus.INTERRUPTED
    assert not go_on(ResumeRequest(db=database, accept_changes=True)).interrupted


def test_failed_trials_are_run_again_only_when_asked(database: str) -> None:
    finished = start(request(failures={"most_rollouts": 100}, db=database))
    failed = [name for name, trial in trials(database).items() if trial.state is TrialState.FAILED]
    assert finished.failed_trials == len(failed) > 0
    with pytest.raises(NotFoundError, match="has ended"):
        go_on(ResumeRequest(db=database))
    with pytest.raises(UnknownNameError, match="unknown trial 'n1-B1-s0'"):
        go_on(RetryRequest(db=database, trial=["n1-B1-s0"]))
    sound = next(name for name, trial in trials(database).items() if trial.state is not TrialState.FAILED)
    with pytest.raises(InputError, match=rf"trial {sound} is finished: only failed trials are run again"):
        go_on(RetryRequest(db=database, trial=[sound]))
    again = go_on(RetryRequest(db=database, trial=failed[:1]))
    assert again.failed_trials == len(failed)
    assert {name: trials(database)[name].attempt for name in failed} == {
        name: 2 if name == failed[0] else 1 for name in failed
    }


class Losing(Simulated):
    def wait(self, seconds: float) -> Any:
        raise ClusterLostError("Ray was lost 6 times")


class Missing(Simulated):
    def __init__(self, *_: Any) -> None:
        raise InputError("no cluster there")


@pytest.mark.parametrize(("executor", "code"), [(Losing, ExitCode.INTERRUPTED), (Missing, ExitCode.BAD_INPUT)])
def test_a_sweep_whose_cluster_is_lost_or_not_there_is_left_free_and_goes_on(
    database: str, monkeypatch: pytest.MonkeyPatch, executor: type[Simulated], code: ExitCode
) -> None:
    monkeypatch.setattr(sweeping, "RayExecutor", executor)
    with pytest.raises((ClusterLostError, InputError), match=r"Ray was lost 6 times|no cluster there") as raised:
        start(request(db=database))
    assert exit_code(raised.value) is code
    sweep = stored(database)
    assert (sweep.status, sweep.driver_id) == (SweepStatus.INTERRUPTED, None)
    monkeypatch.setattr(sweeping, "RayExecutor", Simulated)
    assert not go_on(ResumeRequest(db=database)).interrupted


def test_a_tracker_that_is_not_installed_is_refused_before_anything_is_stored(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rlplan.toml").write_text("[tracking]\nto = 'mlflow'\n")
    monkeypatch.setattr(exits, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"\[tracking\] to = 'mlflow'.*pip install 'rlplan\[tracking\]'"):
        describe(request(db=database))
    monkeypatch.setattr(exits, "find_spec", lambda name: name)
    asked = request(db=database)
    describe(asked)
    spec = spec_of(asked, plan_meant(asked))
    assert spec.tracking is not None
    assert (spec.tracking.to, spec.tracking.project) == ("mlflow", "rlplan")
    assert configuration_fingerprint(spec) == configuration_fingerprint(spec.model_copy(update={"tracking": None}))


def test_a_sweep_that_makes_its_plan_starts_with_the_champion_unless_it_explores(database: str) -> None:
    champion = {"policy": None, "explore": None, "budget": 0.5, "db": database}
    assert champion_of(plan_meant(request(**champion)).config, 0.5) is not None
    sized = plan_meant(request(**champion, champion="n=4,B=16", pilot_fraction=0.1))
    assert (sized.config["champion"]["source"], sized.pilot_gpu_hours) == ("flag", pytest.approx(0.05))
    for explores in ({"policy": "rlplan"}, {"policy": "asha"}, {"search": "tpe"}, {"explore": True}):
        assert "champion" not in plan_meant(request(**{**champion, **explores})).config
