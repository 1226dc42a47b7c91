import json
from pathlib import Path

import pytest

from budgets.errors import CheckpointError, InputError, NotFoundError
from rlplan.actions.train_folder import RunFolder
from rlplan.actions.train_request import TrainRequest
from rlplan.actions.training import train
from tests.rlplan.conftest import Run, Use
from tests.rlplan.train_backend import Scripted, curve_steps, metrics, steps

HERE = Path("here")
BEGUN = TrainRequest(task="sum-easy", steps=10, validate_every=2560, out=HERE)
GO_ON = TrainRequest(resume=True, out=HERE)


class Killed(BaseException):
    """What a SIGKILL leaves behind: everything that was written until then."""


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def killed_at(step: int) -> Scripted:
    def before(beginning: int) -> None:
        if beginning == step:
            raise Killed

    backend = Scripted(before)
    with pytest.raises(Killed):
        train(BEGUN, backend=backend)
    return backend


def test_each_step_stands_once_however_far_the_run_was_from_its_checkpoint() -> None:
    killed_at(9)  # the last checkpoint is that of step 5
    assert steps(HERE) == list(range(9))
    trained = train(GO_ON, backend=Scripted())
    assert steps(HERE) == list(range(11))
    assert curve_steps(HERE) == [0, 5, 10]
    assert [point.optimizer_step for point in trained.history.scored] == [0, 5, 10]


def test_a_line_that_was_torn_is_cut() -> None:
    killed_at(9)
    with (HERE / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "rollou')
    with (HERE / "curve.csv").open("a") as file:
        file.write("9,4608,")
    train(GO_ON, backend=Scripted())
    assert steps(HERE) == list(range(11))
    assert curve_steps(HERE) == [0, 5, 10]
    assert not list(HERE.glob("*.writing"))


def test_a_damaged_checkpoint_is_told_and_the_one_before_taken(run: Run, use: Use) -> None:
    killed_at(9)
    (HERE / "checkpoint-00000005.pt").write_text("damaged")
    use(Scripted())
    ran = run("train", "--resume", "--out", "here")
    assert ran.code == 0
    assert "checkpoint-00000005.pt is damaged" in ran.err
    assert "going on after step 0 of 10" in ran.err
    assert steps(HERE) == list(range(11))


def test_without_any_sound_checkpoint_the_run_is_left_as_it_is() -> None:
    killed_at(4)
    for path in HERE.glob("checkpoint-*.pt"):
        path.write_text("damaged")
    with pytest.raises(NotFoundError, match="no sound checkpoint"):
        train(GO_ON, backend=Scripted())
    assert steps(HERE) == [0, 1, 2, 3]


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(run: Run, use: Use) -> None:
    killed_at(1)
    (HERE / "checkpoint-00000000.pt").unlink()
    use(Scripted())
    ran = run("train", "--resume", "--out", "here")
    assert ran.code == 0
    assert "the run had no checkpoint yet: it begins anew" in ran.err
    assert steps(HERE) == list(range(11))


def test_a_folder_that_holds_a_run_is_refused_with_the_two_ways_out(run: Run, use: Use) -> None:
    killed_at(4)
    use(Scripted())
    before = metrics(HERE)
    ran = run("train", "--task", "sum-easy", "--out", "here")
    assert ran.code == 2
    assert "here holds a run already: go on with it by --resume, or give another folder with --out" in ran.err
    assert metrics(HERE) == before


def test_nothing_left_to_do_is_said(run: Run, use: Use) -> None:
    train(BEGUN, backend=Scripted())
    use(Scripted())
    ran = run("train", "--resume", "--out", "here")
    assert ran.code == 3
    assert "the run in here has made all of its 10 updates: nothing is left to do; --steps takes more" in ran.err


def test_steps_may_be_raised_on_another_machine() -> None:
    train(BEGUN, backend=Scripted())
    trained = train(TrainRequest(resume=True, out=HERE, steps=12, seed=0, threads=2), backend=Scripted())
    assert trained.run.trial.machine.threads == 2
    assert steps(HERE) == list(range(13))
    assert json.loads((HERE / "config.json").read_text())["update_steps"] == 12


def test_the_folder_is_found_by_the_flags_that_named_it() -> None:
    flags = {"task": "sum-easy", "rollouts_per_prompt": 8, "seed": 2}
    train(TrainRequest(**flags, steps=2), backend=Scripted())
    trained = train(TrainRequest(**flags, steps=3, resume=True), backend=Scripted())
    assert trained.folder == Path("runs/sum-easy-easy-n8-B32-seed2")
    with pytest.raises(NotFoundError, match="there are runs/sum-easy-easy-n8-B32-seed2: name one with --out"):
        train(TrainRequest(task="sum-easy", resume=True), backend=Scripted())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"seed": 3}, "--seed is 3, the run has 0"),
        ({"task": "sum-hard"}, "--task is sum-hard, the run has sum-easy"),
        ({"rollouts_per_prompt": 8}, "--rollouts-per-prompt is 8, the run has 16"),
        ({"validate_every": 99}, "--validate-every is 99, the run has 2560"),
        ({"recipe": "dapo"}, "--recipe is dapo, the run has easy"),
        ({"recipe": "daop"}, "--recipe: unknown recipe 'daop'"),
        ({"steps": 4}, "--steps is 4, the run has 10, which can only be raised"),
        ({"config": Path("my.toml")}, "--config my.toml has no say"),
        ({"seed": 3, "samples": 9}, "--seed is 3, the run has 0; --samples is 9, the run has 4"),
    ],
)
def test_a_flag_that_contradicts_the_run_is_refused_with_both_values(flags: dict[str, object], said: str) -> None:
    killed_at(4)
    with pytest.raises(InputError) as refused:
        train(TrainRequest(**flags, resume=True, out=HERE), backend=Scripted())
    assert said in str(refused.value)
    assert "begin a new run with --out" in str(refused.value)
    assert steps(HERE) == [0, 1, 2, 3]


def test_a_recipe_of_the_same_name_with_other_values_is_another_one(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('inherits = "grpo"\n')
    begun = {"task": "sum-easy", "out": HERE, "recipe": str(recipe)}
    train(TrainRequest(**begun, steps=2), backend=Scripted())
    recipe.write_text('inherits = "grpo"\n[objective]\nkl = 0.5\n')
    with pytest.raises(InputError, match=r"mine\.toml has objective\.kl = 0\.5, the run has 0\.04"):
        train(TrainRequest(**begun, steps=4, resume=True), backend=Scripted())
    train(TrainRequest(out=HERE, recipe="mine", steps=4, resume=True), backend=Scripted())


def test_a_flag_that_was_shown_before_is_not_shown_again(run: Run, use: Use) -> None:
    flags = {3: ("truncation",), 7: ("truncation",)}
    train(BEGUN, backend=Scripted(flags=flags))
    use(Scripted(flags={**flags, 11: ("truncation",)}))
    ran = run("train", "--resume", "--out", "here", "--steps", "12", "--format", "json")
    assert "truncation" not in ran.err
    assert ran.json["flags"] == [{"flag": "truncation", "first_step": 3, "steps": 3}]


def test_one_process_trains_in_a_folder_at_a_time() -> None:
    killed_at(4)
    with RunFolder(HERE), pytest.raises(InputError, match="another process is training in here"):
        train(GO_ON, backend=Scripted())
    train(GO_ON, backend=Scripted())


def test_a_full_disk_is_said_with_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise CheckpointError("here/metrics.jsonl cannot be written (No space left on device)")

    monkeypatch.setattr("runner.training.trial.PointsFile.add", full)
    with pytest.raises(CheckpointError, match="make room and go on with `rlplan train --resume --out here`"):
        train(BEGUN, backend=Scripted())


@pytest.mark.parametrize("text", ["", "{}", '{"architectures": ["LlamaForCausalLM"]}'])
def test_a_config_that_is_of_no_run_is_refused(text: str) -> None:
    HERE.mkdir()
    (HERE / "config.json").write_text(text)
    with pytest.raises(InputError, match="is no configuration of a run that this version of rlplan can read"):
        train(GO_ON, backend=Scripted())
