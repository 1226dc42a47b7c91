"""A trainer that is only described by a file keeps the promises of the port, however it writes its metrics."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError, TrainingError
from planner.config.trainer import TrainerChoice
from planner.recipes.schema import Recipe
from runner.backends import open_backend
from runner.ports.backend import Point, TrainerBackend
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.backend import DrivenBackend
from runner.trainers.command.driver import driver
from runner.trainers.driver import Attempt
from runner.training.trial import OpenTrial
from tests.conformance.trainer_backend import *  # noqa: F403

COMMAND = (
    "{python} {here}/own_trainer.py --group-size {rollouts_per_prompt} --batch-size {prompts_per_batch} --steps "
    "{to_step} --eval-every {validate_every} --lr {learning_rate} --seed {seed}"
)
NAMED = {"step": "it", "score": "eval/acc", "response_tokens": "length"}
STYLES: dict[str, dict[str, Any]] = {
    "jsonl": {"file": "log.jsonl", "columns": NAMED},
    "csv": {"format": "csv", "file": "log.*", "columns": NAMED},
    "console": {
        "format": "console",
        "pattern": [
            r"\[it (?P<step>\d+)\].*acc=(?P<score>\S+)",
            r"\[it (?P<step>\d+)\] loss=(?P<loss>\S+) length=(?P<length>\S+)",
        ],
        "columns": {"response_tokens": "length"},
    },
    "tensorboard": {
        "format": "tensorboard",
        "columns": {"score": "train/acc", "response_tokens": "train/length", "loss": "train/loss"},
    },
}


def described(style: str, **options: Any) -> TrialConfig:
    given = {
        "here": str(Path(__file__).parent),
        "command": f"{COMMAND} --style {style}",
        "resume": "--resume {resume_from}",
        "metrics": STYLES[style],
        "checkpoints": {"pattern": "ckpt/it-{step}", "complete": "done"},
        **({} if style == "tensorboard" else {"began": "^ready"}),
        **options,
    }
    return TrialConfig(
        task=TaskChoice(name="sum-easy", reward="exact"),
        recipe=Recipe(name="plain"),
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=1e-3,
        validation=ValidationPlan(problems=50, samples=4, every_rollouts=32),
        machine=Machine(gpus=2),
        trainer=TrainerChoice(name="command", options=given),
    )


@pytest.fixture(params=["ends with its segment", "waits at the gate"])
def config(request: pytest.FixtureRequest) -> TrialConfig:
    if request.param == "ends with its segment":
        return described("jsonl")
    return described("jsonl", gate=True, command=f"{COMMAND} --style jsonl --gate")


@pytest.fixture
def new_backend(config: TrialConfig) -> Callable[[], TrainerBackend]:
    return lambda: DrivenBackend(driver(config))


def opened(config: TrialConfig, folder: Path) -> OpenTrial:
    backend = open_backend(config)
    step = None
    if any(folder.glob("trainer/ckpt/*")):
        step = backend.restore(config, folder)
    else:
        backend.start(config, folder)
    return OpenTrial(backend, folder, step)


def trained(config: TrialConfig, folder: Path, *until: int) -> list[Point]:
    folder.mkdir(exist_ok=True)
    points: list[Point] = []
    for step in until:
        with closing(opened(config, folder)) as trial:
            points += trial.train(step)
            trial.save()
    return points


def said(points: list[Point]) -> list[tuple[int, float, float, int]]:
    def number(value: Any) -> float:
        return -1.0 if value is None else float(value)

    return [(each.optimizer_step, number(each.score), number(each.metrics.get("loss")), each.tokens) for each in points]


@pytest.mark.parametrize("style", STYLES)
def test_metrics_in_every_form_say_the_same_also_when_it_was_interrupted(style: str, tmp_path: Path) -> None:
    config = described(style)
    points = trained(config, tmp_path, 3, 5)
    whole = trained(described("jsonl"), tmp_path / "whole", 5)
    for mine, its in zip(said(points), said(whole), strict=True):
        assert mine == pytest.approx(its, rel=1e-5)
    assert [point.optimizer_step for point in points] == list(range(6))


def test_the_problems_are_laid_down_and_a_file_of_its_own_is_written(tmp_path: Path) -> None:
    config = described(
        "jsonl",
        command=f"{COMMAND} --style jsonl --eval-data {{validation_problems}}",
        files={"conf/train.yaml": "clip: {recipe.objective.clip_high}\nproblems: {problems}\n"},
        environment={"RUN": "seed-{seed}"},
    )
    trained(config, tmp_path, 1)
    own = tmp_path / "trainer"
    lines = (own / "validation_problems.jsonl").read_text().splitlines()
    assert len(lines) == 50
    assert json.loads(lines[0]).keys() == {"id", "prompt", "answer"}
    assert str(own / "problems.jsonl") in (own / "conf/train.yaml").read_text()
    assert "{" not in (own / "conf/train.yaml").read_text()
    assert "export RUN=seed-0" in (own / "command-0.sh").read_text()
    assert {(own / name).stat().st_mode & 0o777 for name in ("command-0.sh", "trial.json")} == {0o600}


def test_variables_reach_the_trainer_and_the_values_of_secrets_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "test $NCCL_DEBUG-$JUDGE_TOKEN = WARN-$(echo dreizehn | tr dn gn)"
    config = described("jsonl", command=["bash", "-c", f"{asked} && {COMMAND} --style jsonl"])
    assert config.trainer is not None
    given = {"secrets": ["JUDGE_TOKEN"], "environment": {"NCCL_DEBUG": "WARN"}}
    config = config.model_copy(update={"trainer": config.trainer.model_copy(update=given)})
    monkeypatch.delenv("JUDGE_TOKEN", raising=False)
    with pytest.raises(InputError, match="JUDGE_TOKEN is not set on"):
        trained(config, tmp_path / "without", 1)
    monkeypatch.setenv("JUDGE_TOKEN", "greizehn")
    assert trained(config, tmp_path / "with", 1)
    assert "NCCL_DEBUG=WARN" in (tmp_path / "with/trainer/command-0.sh").read_text()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if b"greizehn" in path.read_bytes()]


def test_a_secret_that_the_trainer_prints_stays_in_its_own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_TOKEN", "greizehn")
    prints = "set -x; true $JUDGE_TOKEN; set +x; echo refused: $JUDGE_TOKEN; exit 1"
    config = described("jsonl", command=["bash", "-c", f"{prints}; {COMMAND} --style jsonl"])
    assert config.trainer is not None
    trainer = config.trainer.model_copy(update={"secrets": ["JUDGE_TOKEN"]})
    with pytest.raises(TrainingError, match=r"refused: \*\*\*") as failure:
        trained(config.model_copy(update={"trainer": trainer}), tmp_path, 1)
    assert "greizehn" not in f"{failure.value} {failure.value.tail}"
    assert "+ true ***" in failure.value.tail
    log = next(tmp_path.glob("trainer/attempt-1.log"))
    assert "greizehn" in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_command_that_names_its_rank_is_started_on_every_node() -> None:
    config = described("jsonl")
    attempt = Attempt(Path("/trial"), 2, 3, 9, Path("/trial/c-3"), ("10.0.0.1", "10.0.0.2"), ("0,1", "2,3"))
    assert driver(config).launch(config, attempt, 1) is None
    spread = f"{COMMAND} --node {{node_rank}}/{{nodes}} --head {{head_address}}:{{head_port}} --gpus {{gpus_per_node}}"
    config = TrialConfig.model_validate(
        {**dict(described("jsonl", command=spread)), "machine": Machine(gpus=4, nodes=2, device="cuda")}
    )
    launches = [driver(config).launch(config, attempt, rank) for rank in (0, 1)]
    words = [" ".join(each.argv) for each in launches if each is not None]
    assert [f"--node {rank}/2" in text for rank, text in enumerate(words)] == [True, True]
    assert all("--head 10.0.0.1:2" in text and "--gpus 2 --resume /trial/c-3" in text for text in words)
    assert [each.environment["CUDA_VISIBLE_DEVICES"] for each in launches if each is not None] == ["0,1", "2,3"]


def test_one_that_does_not_save_when_it_is_stopped_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    config = described("jsonl", command=f"{COMMAND} --style jsonl --no-stop")
    trained(config, tmp_path, 3)
    lost: list[Point] = []
    with closing(opened(config, tmp_path)) as trial:
        for point in trial.train(1000, lambda: len(lost) > 1):
            lost.append(point)
        trial.save()
        assert trial.step == 3
    again = trained(config, tmp_path, 6)
    assert [point.optimizer_step for point in again] == [4, 5, 6]
    assert said(lost)[:2] == said(again)[:2]  # made again, and only once


def test_a_pattern_that_matches_nothing_is_named_with_a_line_of_what_was_printed(tmp_path: Path) -> None:
    config = described("console", metrics={"format": "console", "pattern": r"epoch (?P<step>\d+)"})
    with pytest.raises(TrainingError, match=r"metrics.pattern 'epoch .* matches no line of .*, such as '\[it 3\] "):
        trained(config, tmp_path, 3)
    config = described("jsonl", metrics={"file": "other.jsonl", "columns": NAMED})
    with pytest.raises(TrainingError, match=r"metrics: there is no file .*other.jsonl"):
        trained(config, tmp_path / "no file", 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": COMMAND.replace("{seed}", "{sead}")}, "did you mean 'seed'"),
        ({"command": COMMAND.replace("{seed}", "{recipe.objective.clipp}")}, "recipe.objective.clip"),
        ({"command": COMMAND.replace("{to_step}", "9")}, "no {to_step}"),
        ({"command": COMMAND.replace("{rollouts_per_prompt}", "8")}, "no {rollouts_per_prompt}"),
        ({"command": ""}, "is empty"),
        ({"resume": None}, "resume = '--resume {resume_from}'"),
        ({"metrics": {"format": "console"}}, "needs metrics.pattern"),
        ({"metrics": {"format": "wandb"}}, "metrics.format = 'wandb'"),
        ({"metrics": {"format": "console", "pattern": "("}}, "no regular expression"),
        (
            {"checkpoints": {"pattern": "checkpoints"}},
            "should lie in the trial's folder (no / before it, no ..) and name {step} once",
        ),
        ({"comand": "x"}, "unknown key 'comand': did you mean 'command'"),
    ],
)
def test_a_file_that_describes_no_trainer_is_refused_with_what_is_wrong(options: dict[str, Any], message: str) -> None:
    config = described("jsonl", **options)
    with pytest.raises(InputError) as error:
        driver(config).check(config)
    assert message in str(error.value)


def test_a_mark_beside_a_checkpoint_has_its_number_as_it_is_written_and_goes_with_a_copy(tmp_path: Path) -> None:
    config = described("jsonl", checkpoints={"pattern": "ckpt/it-{step}", "complete": "../it-{step}.done"})
    for step in ("0004", "0008"):
        (tmp_path / "ckpt" / f"it-{step}").mkdir(parents=True)
    (tmp_path / "ckpt" / "it-0004.done").touch()
    (found,) = driver(config).checkpoints(config, tmp_path)
    assert (found.step, found.beside) == (4, (tmp_path / "ckpt" / "it-0004.done",))
