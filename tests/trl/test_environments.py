"""Rollouts of several turns, in an environment of the user's: trained on, validated on and resumed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from planner.config.trainer import TrainerChoice
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.driver import Attempt
from runner.trainers.launch import opened_task
from runner.trainers.trial_reward import REPORTS
from runner.trainers.trl import callback, train
from runner.trainers.trl.driver import DRIVER
from runner.trainers.trl.rollouts import Rollouts
from tests.trl.chats import CALLS, IDS, save_chat_model
from tests.trl.test_trainer import assert_equal_weights, computed, disturbed, opened

# TRL 1.16 asks transformers 5 for this by its old name.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

LONGEST = 40  # tokens of a rollout but its prompt: two calls with what they bring, and an end

NAMES = {"environment": "a field", "image": "another", "number": 7}  # which TRL, and we, would take for our own


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_chat_model(tmp_path_factory.mktemp("model"))


def trial(
    folder: Path, model: str, environment: str | None = "Counter", processes: int = 1, **more: Any
) -> TrialConfig:
    """Return a trial in an environment of counting.py, whose problems say how far it should count."""
    rows = [{"prompt": f"count {number}", "answer": "done", "target": 1 + number % 3, **NAMES} for number in range(32)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"environment": f"tests.trl.counting:{environment}"} if environment else {}
    task = {"name": str(folder / "rows.jsonl"), "model": model, "reward": "exact", "prompt_length": 100}
    return TrialConfig(
        task=TaskChoice(**task, max_response_tokens=LONGEST),
        recipe=Recipe(name="plain"),
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=1e-3,
        validation=ValidationPlan(problems=8, samples=2, every_rollouts=32),
        machine=Machine(gpus=processes),
        trainer=TrainerChoice(name="trl", python=sys.executable, options={**options, **more}),
    )


def notes(folder: Path) -> list[dict[str, Any]]:
    """Return what the environments of a folder did."""
    return [json.loads(line) for line in (folder / "notes.jsonl").read_text().splitlines()]


def built(config: TrialConfig, folder: Path, monkeypatch: pytest.MonkeyPatch) -> train.Trial:
    """Return the trainer of a trial in this process, at its first update."""
    for name, text in DRIVER.files(DRIVER.job(config, opened_task(config), Attempt(folder, 1, 0, 4, None))).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(train, "FOLDER", folder)
    monkeypatch.setattr(callback, "FOLDER", folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    made = train.built(json.loads((folder / "run.json").read_text()))
    made.current_gradient_accumulation_steps = 1  # otherwise set by its training loop
    return made


def follower(made: train.Trial) -> callback.RlplanCallback:
    """Return what follows a trial."""
    return next(each for each in made.callback_handler.callbacks if isinstance(each, callback.RlplanCallback))


def generated(made: train.Trial, count: int = 4) -> dict[str, Any]:
    """Have a batch made of the first problem."""
    made.model.train()
    torch.manual_seed(3)
    return made._generate_and_score_completions([made.train_dataset[0]] * count)


def test_killed_between_two_segments_it_goes_on_as_the_same_trial(model: str, tmp_path: Path) -> None:
    config = trial(tmp_path, model, processes=2)
    with opened(config, tmp_path / "whole") as undisturbed:
        whole = list(undisturbed.train(8))
    calls = sum(note["did"] == "raise_by" for note in notes(tmp_path / "whole" / "trainer"))
    points = disturbed(config, tmp_path / "disturbed", (5,), 8)
    assert computed(points) == computed(whole)
    assert_equal_weights(tmp_path, 8)
    assert calls > 8 * 16  # in nearly all rollouts of eight updates and five validations
    scores = [point.score for point in whole if point.score is not None]
    assert len(scores) == 5
    assert 0 < scores[0] < 1


def test_a_validation_plays_as_the_training_does_and_leaves_nothing_behind(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = built(trial(tmp_path, model), tmp_path / "run", monkeypatch)
    batch = generated(made)
    assert batch["tool_mask"].shape == batch["completion_ids"].shape
    assert 0 < batch["tool_mask"].float().mean() < 1
    before = {name: list(values) for name, values in made._metrics["train"].items()}
    played, config, tokens = made.environments, made.generation_config, made.state.num_input_tokens_seen

    begun = len(notes(tmp_path / "run"))

    scored = follower(made)._validated(0)

    assert {name: list(values) for name, values in made._metrics["train"].items()} == before
    assert not made._metrics["eval"]
    assert (made.environments, made.generation_config) == (played, config)
    assert made.environments is played
    assert made.model.training
    assert made.state.num_input_tokens_seen == tokens
    assert [len(group) for group in scored["scores"]] == [2] * 8
    turns = [note["did"] for note in notes(tmp_path / "run")][begun:]
    assert turns.count("raise_by") > turns.count("get_reward") == 16  # more than one call in a rollout, on average
    assert 2 <= scored["metrics"]["validation_response_tokens"] <= 6  # calls, answers and ends, not what a tool says
    made.run["validation"]["temperature"] = 0.0
    follower(made)._validated(0)
    assert made.rollouts.ids[::2] == made.rollouts.ids[1::2]  # both samples of each problem


@pytest.mark.parametrize(
    ("environment", "scores", "failed"),
    [
        ("Counter", {0.25, 1.0}, 0),
        ("Awaited", {0.0, 1.0}, 0),
        ("Silent", {0.0, 1.0}, 0),  # the task's reward judges the last turn
        ("Beyond", {1.0}, 0),
        ("Broken", {0.0}, 16),
    ],
)
def test_the_environments_reward_is_the_score(
    environment: str, scores: set[float], failed: int, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = built(trial(tmp_path, model, environment), tmp_path / "run", monkeypatch)
    assert made.reward_func_names == ["reward", "pass_rate"]
    found = follower(made)._validated(0)["scores"]
    assert {score for group in found for score in group} == scores
    reports = [
        json.loads(line) for path in (tmp_path / "run" / REPORTS).glob("*") for line in path.read_text().splitlines()
    ]
    assert sum(each["failed"] for each in reports) == failed
    assert all("no referee" in each["reason"] for each in reports)
    generated(made)
    assert made._metrics["train"]["rewards/pass_rate/mean"] == made._metrics["train"]["reward"]
    fields = {tuple(note["fields"]) for note in notes(tmp_path / "run") if note["did"] == "reset"}
    assert fields == {tuple(sorted([*NAMES, "answer", "id", "prompt", "target"]))}


def test_tools_need_no_environment_and_their_calls_are_bounded_by_a_key_of_trls(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = {
        "tools": [str(Path(__file__).with_name("counting.py:raise_by"))],
        "settings": {"max_tool_calling_iterations": 1},
    }
    made = built(trial(tmp_path, model, None, **tools), tmp_path / "run", monkeypatch)
    generated(made, 16)
    rollouts = made.rollouts
    assert rollouts.environments is None
    called = [own for own in rollouts.own if 0 in own]
    assert len(notes(tmp_path / "run")) == len(called) > 8
    assert {turn[0] for turn in rollouts.last_turns()} & {IDS[call] for call in CALLS}  # nothing came of a second call


def test_a_rollout_is_as_long_as_what_the_model_wrote() -> None:
    rollouts = Rollouts([[4, 3, 9, 9, 6, 3], [4, 3, 9]], [[1, 1, 0, 0, 1, 1], [1, 1, 0]], None)
    assert rollouts.lengths() == [4, 2]
    assert rollouts.last_turns() == [[6, 3], []]
    assert Rollouts([[6, 3]], None, None).last_turns() == [[6, 3]]


def test_what_cannot_be_played_in_is_refused_with_the_reason(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (refusal,) = DRIVER.rehearse(trial(tmp_path, model, "Gone"))
    assert "environment = 'tests.trl.counting:Gone' cannot be loaded: AttributeError" in refusal
    assert "Give it as package.module:name or path/to/file.py:name" in refusal
    template = tmp_path / "template.jinja"
    template.write_text("{% for turn in messages %}{{ turn.content }}{% endfor %}")
    config = trial(tmp_path, model)
    unknown = config.model_copy(update={"task": config.task.model_copy(update={"chat_template": str(template)})})
    with pytest.raises(ValueError, match="chat template does not support tool calling"):
        built(unknown, tmp_path / "run", monkeypatch)
    with pytest.raises(ValueError, match="Unrecognized chat template"):
        train.rehearsed(json.loads((tmp_path / "run" / "run.json").read_text()))
