"""What rlplan knows of NeMo-RL: recipes, its configuration by recorded facts, its log, its checkpoints."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch

from budgets.errors import InputError
from planner.logs.names import NEMO_RL
from planner.recipes import load_recipe, recipe_names
from planner.recipes.schema import Advantage
from runner.grpo.advantages import advantages
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.ability import degree
from runner.trainers.driving import opened_task
from runner.trainers.facts import facts_of
from runner.trainers.nemo_rl import driver as nemo
from runner.trainers.nemo_rl.configuration import keys_of
from runner.trainers.nemo_rl.driver import NemoRlDriver
from runner.trainers.told import readings
from tests.runner.trainers.standins import attempt, driven

CHECKOUT = {"checkout": "/opt/RL"}


def trial(task: TaskChoice, recipe: str = "grpo", **changes: Any) -> TrialConfig:
    return driven("nemo-rl", task, recipe, **{"options": CHECKOUT, **changes})


def told(config: TrialConfig, folder: Path, **changes: Any) -> dict[str, Any]:
    launch = NemoRlDriver().launch(config, attempt(folder, **changes), 0)
    assert launch is not None
    return dict(json.loads(launch.files["nemo.json"]))


@pytest.fixture(scope="module")
def started() -> ModuleType:
    """Return the program that runs in NeMo-RL's interpreter, which imports nothing of it until it is called."""
    spec = spec_from_file_location("nemo_start", Path(nemo.__file__).with_name("start.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_that_is_accepted_becomes_keys_that_it_has(recipe: str, task: TaskChoice, tmp_path: Path) -> None:
    config = trial(task, recipe)
    assert degree(NemoRlDriver().differences(config.recipe)) != "refused"
    if config.prompts_per_batch * config.recipe.schedule.updates_per_batch > 24:
        with pytest.raises(InputError, match="is drawn without repeating any"):
            NemoRlDriver().check(config)
        config = trial(task, recipe, prompts_per_batch=1)
    NemoRlDriver().check(config)
    keys = told(config, tmp_path)
    assert keys.pop("defaults") == "/opt/RL/examples/configs/grpo_math_1B.yaml"
    facts_of("nemo-rl").require(keys)


@pytest.mark.parametrize("recipe", ["dr-grpo", "magistral"])
def test_a_key_that_it_would_take_in_silence_is_caught(recipe: str, task: TaskChoice, tmp_path: Path) -> None:
    config = trial(task, recipe)
    keys = [key for key in keys_of(config, opened_task(config), attempt(tmp_path)) if key != "defaults"]
    assert [key for key in keys if facts_of("nemo-rl").knows(f"{key}x")] == []
    with pytest.raises(InputError, match=r"did you mean 'grpo\.val_period'"):
        NemoRlDriver().check(trial(task, options={**CHECKOUT, "settings": {"grpo.val_perid": 5}}))


def test_n_and_b_and_the_rest_of_a_trial_are_told_in_its_words(task: TaskChoice, tmp_path: Path) -> None:
    keys = told(trial(task, "gspo", prompts_per_batch=3), tmp_path)

    grpo, policy, loss = keys["grpo"], keys["policy"], keys["loss_fn"]
    assert (grpo["num_generations_per_prompt"], grpo["num_prompts_per_step"]) == (4, 12)  # four updates of a batch
    assert policy["train_global_batch_size"] == 12  # of each
    assert (grpo["max_num_steps"], grpo["val_period"]) == (2, 1)
    assert grpo["use_leave_one_out_baseline"] is False  # which is its default
    assert loss["sequence_level_importance_ratios"] is True
    assert loss["token_level_loss"] is False
    assert keys["checkpointing"]["metric_name"] is None  # by which it would remove the newest
    assert keys["checkpointing"]["keep_top_k"] == 2
    assert keys["data"]["default"]["prompt_file"] is None  # which would add a sentence
    assert keys["cluster"] == {"num_nodes": 1, "gpus_per_node": 4}


def test_the_rate_rises_in_steps_and_stays_whatever_the_length(task: TaskChoice, tmp_path: Path) -> None:
    short, long = (told(trial(task, "hard"), tmp_path, to_step=steps)["policy"] for steps in (4, 400))
    assert short["scheduler"] == long["scheduler"]
    warmup, _, milestones = short["scheduler"]
    assert warmup["kwargs"] == {"start_factor": 0.1, "end_factor": 1.0, "total_iters": 9}
    assert milestones == {"milestones": [10]}
    assert told(trial(task, "hard", warmup_steps=0), tmp_path)["policy"]["scheduler"][0]["name"].endswith("ConstantLR")


def test_a_checkpoint_counts_once_it_has_its_name_and_by_our_updates(task: TaskChoice, tmp_path: Path) -> None:
    for name in ("step_1", "step_2", "tmp_step_3", "old_step_1"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    found = NemoRlDriver().checkpoints(trial(task, "gspo", prompts_per_batch=3), tmp_path)
    assert [each.step for each in found] == [8, 4]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"options": {}}, "checkout"),
        ({"options": {**CHECKOUT, "settings": {"grpo.seed": 1}}}, "rlplan sets that itself"),
        ({"machine": Machine(gpus=5)}, "n · B must be a multiple of the GPUs"),
        ({"validation": ValidationPlan(every_rollouts=48, temperature=0.6)}, "samples a validation as it does"),
        ({"prompts_per_batch": 60}, "24 training problems"),
        ({"growth": "4x"}, "batch is constant"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], named: str, task: TaskChoice) -> None:
    with pytest.raises(InputError, match=named):
        NemoRlDriver().check(trial(task, **changes))


def test_every_host_has_a_ray_of_the_trials_own(task: TaskChoice, tmp_path: Path) -> None:
    config = trial(task, machine=Machine(gpus=4, nodes=2, device="cuda"))
    begun = attempt(tmp_path, hosts=("10.0.0.1", "10.0.0.2"), gpus=("0,1", "0,1"))
    head, other = (NemoRlDriver().launch(config, begun, rank) for rank in (0, 1))
    assert head is not None
    assert other is not None
    assert head.argv[1].endswith("in_own_ray.py")
    assert head.argv[-1] == "start.py"
    assert "start.py" not in other.argv


def test_what_it_logs_and_dumps_is_told_at_once(started: ModuleType, tmp_path: Path) -> None:
    class Logger:
        said: ClassVar[list[Any]] = []

        def log_metrics(self, metrics: Any, step: int, prefix: str = "") -> None:
            self.said.append(metrics)

        def log_batched_dict_as_jsonl(self, to_log: Any, filename: str) -> None:
            self.said.append(filename)

    teller = started.Teller(tmp_path / "m.jsonl", samples=2)
    teller.listen_to(Logger)
    logger = Logger()
    logger.log_metrics({"total": 1.0}, 0, "timing/setup")
    assert not (tmp_path / "m.jsonl").exists()  # what it logs before it stands at its first step is not of one
    teller.say(0)
    logger.log_batched_dict_as_jsonl({"rewards": [1, 0, 0, 0]}, "val_data_step0.jsonl")
    logger.log_metrics({"accuracy": 0.25}, 0, "validation")
    logger.log_metrics({"loss": torch.tensor(0.5), "mean_gen_tokens_per_sample": 7, "text": "x"}, 1, prefix="train")

    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    begun, scored, again, trained = [reading for line in lines for reading in readings(line, NEMO_RL, 4)]
    assert (begun.step, dict(begun.metrics)) == (0, {})
    assert (scored.score, scored.score_standard_error) == (0.25, pytest.approx(0.25))
    assert again.score is None
    assert (trained.step, trained.response_tokens, trained.metrics["loss"]) == (4, 7.0, 0.5)
    assert len(Logger.said) == 4  # and it logs as it would have


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_its_advantages_are_ours(scale: Any, started: ModuleType) -> None:
    settings = Advantage(scale=scale)
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    theirs = started.Advantages(3, settings.model_dump()).compute_advantage(None, rewards, torch.ones(6, 5))
    assert torch.equal(theirs, advantages(rewards, 3, settings)[:, None].expand(6, 5))


def test_what_it_does_of_a_recipe_is_said_key_by_key() -> None:
    known = {str(each).partition(" = ")[0] for each in NemoRlDriver().differences(load_recipe("scalerl"))}
    assert known == {
        "schedule.staleness_bound",
        "objective.against",
        "objective.aggregation",
        "filters.zero_variance",
        "filters.retire_at",
        "precision.fp32_head",
    }
    exact = [each for each in recipe_names() if not NemoRlDriver().differences(load_recipe(each), weights="float32")]
    assert exact == ["cispo", "gspo", "hard"]
