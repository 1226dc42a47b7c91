"""What we write is taken by verl's own Hydra configuration and validate_config, key by key."""

import asyncio
import inspect
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from datasets import Dataset
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from verl.experimental.reward_loop.reward_manager.dapo import DAPORewardManager

from planner.config.trainer import TrainerChoice
from runner.ports.trial import TaskChoice
from runner.trainers.script import read_script
from runner.trainers.verl.driver import DRIVER
from tests.runner.tasks.checkpoints import save_checkpoint
from tests.runner.trainers.standins import attempt
from tests.trainers_verl.conftest import program
from tests.trainers_verl.trials import RECIPES, keys, trial, words

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs

CHECKPOINT = Path("/checkpoints/global_step_2")


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("resumed", [False, True])
def test_verl_accepts_every_recipe_and_holds_every_key(
    recipe: str, resumed: bool, start: ModuleType, estimator: ModuleType, tmp_path: Path
) -> None:
    where = {"from_step": 2, "checkpoint": CHECKPOINT, "number": 2} if resumed else {}
    given = keys(trial(recipe), tmp_path, **where)

    assert start.refused(words(trial(recipe), tmp_path, **where)) == []

    config = start.composed(words(trial(recipe), tmp_path, **where))
    held = {key: OmegaConf.select(config, key.lstrip("+")) for key in given if not key.startswith("hydra.")}
    assert {
        key: OmegaConf.to_object(value) if OmegaConf.is_config(value) else value for key, value in held.items()
    } == {key: given[key] for key in held}


def test_adapters_sampling_and_a_chat_template_arrive(start: ModuleType, tmp_path: Path) -> None:
    template = '{% for m in messages %}{{ m["role"] == \'x\' }}\n{{ "\\n" + m.content }}{% endfor %}'
    (tmp_path / "template.jinja").write_text(template)
    (tmp_path / "p.jsonl").write_text("".join(f'{{"prompt": "what is {k}", "answer": "4"}}\n' for k in range(30)))
    task = TaskChoice(name=str(tmp_path / "p.jsonl"), model=save_checkpoint(tmp_path / "m"), max_response_tokens=4)
    task = task.model_copy(update={"chat_template": str(tmp_path / "template.jinja"), "top_p": 0.8, "reward": "exact"})
    loop = "actor_rollout_ref.rollout.agent.default_agent_loop"
    tools = "actor_rollout_ref.rollout.multi_turn.function_tool_path"
    choice = TrainerChoice(name="verl", options={"settings": {loop: "tool_agent", tools: "/tools.py"}})
    config = trial(task=task, trainer=choice)
    config = config.model_copy(update={"machine": config.machine.model_copy(update={"lora_rank": 32})})
    held = start.composed(words(config, tmp_path)).actor_rollout_ref
    assert (held.rollout.agent.default_agent_loop, held.rollout.multi_turn.function_tool_path) == (
        "tool_agent",
        "/tools.py",
    )
    assert (held.model.custom_chat_template, held.model.lora_rank, held.rollout.top_p) == (template, 32, 0.8)


@pytest.mark.parametrize("recipe", ["dapo", "scalerl"])
def test_a_mistyped_key_of_ours_is_caught_whichever_it_is(recipe: str, start: ModuleType, tmp_path: Path) -> None:
    given = [key for key in keys(trial(recipe), tmp_path) if not key.startswith(("hydra.", "+"))]
    config = start.composed(words(trial(recipe), tmp_path))  # Hydra merges every word into what may gain no key
    passed = []
    for key in given:
        with suppress(OmegaConfBaseException):
            OmegaConf.update(config, f"{key}x", 1)
            passed.append(key)
    assert passed == []


def test_keys_that_verl_looks_up_without_declaring_them_are_those_that_it_looks_up(tmp_path: Path) -> None:
    source = inspect.getsource(DAPORewardManager)
    added = [key for key in keys(trial("dapo"), tmp_path) if key.startswith("+")]
    assert added
    assert [key for key in added if key.rpartition(".")[2] not in source] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("actor_rollout_ref.actor.policy_loss.loss_mode", "nonsense"),
        ("algorithm.adv_estimator", "nonsense"),
        ("reward.reward_manager.name", "nonsense"),
        ("actor_rollout_ref.actor.strategy", "nonsense"),
        ("actor_rollout_ref.rollout.name", "nonsense"),
        ("actor_rollout_ref.actor.loss_agg_mode", "nonsense"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", "4096"),
        ("actor_rollout_ref.actor.clip_ratio_hihg", "1"),
    ],
)
def test_a_mistyped_key_is_named_and_names_that_validate_config_lets_pass_are_looked_up(
    key: str, value: str, start: ModuleType, estimator: ModuleType, tmp_path: Path
) -> None:
    (said,) = start.refused([*words(trial(), tmp_path), f"{key}={value}"])
    assert value in said or key.rpartition(".")[2] in said


def test_a_path_with_signs_that_hydra_reads_arrives_whole(start: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "it's = a, {folder}"
    folder.mkdir()
    config = start.composed(words(trial(), folder))
    assert config.trainer.default_local_dir == str(folder / "checkpoints")


def test_a_rehearsal_asks_verl_in_its_own_interpreter(tmp_path: Path) -> None:
    own = {"name": "verl", "python": sys.executable, "approximate": True}
    wrong = TrainerChoice(**own, options={"settings": {"actor_rollout_ref.actor.clip_ratoi": 0.1}})
    assert DRIVER.rehearse(trial(trainer=TrainerChoice(**own))) == []
    (said,) = DRIVER.rehearse(trial(trainer=wrong))
    assert "clip_ratoi" in said


def test_the_problems_become_verls_files_in_the_plans_order(
    start: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = trial(task=TaskChoice(name="sum-easy"))
    launch = DRIVER.launch(config, attempt(tmp_path), 0)
    assert launch is not None
    for name, text in launch.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    start.write_data()
    train, validation = (
        Dataset.from_parquet(str(tmp_path / f"{name}.parquet"), cache_dir=str(tmp_path / "cache"))
        for name in ("train", "validation")
    )
    assert len(validation) == 20
    assert train[0]["prompt"][0]["role"] == "user"
    assert set(train[0]) == {"data_source", "prompt", "reward_model", "extra_info"}
    assert len({row["extra_info"]["number"] for row in train.select(range(4096))}) == 4096

    scored = program("verl_reward", tmp_path / "reward.py").compute_score(
        "rlplan", validation[0]["reward_model"]["ground_truth"], "", validation[0]["extra_info"]
    )
    assert asyncio.run(scored) == {"score": 1.0, "acc": 1.0}


def test_what_a_script_sets_is_accepted_beside_ours(start: ModuleType, estimator: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "run_grpo.sh"
    kept = "actor_rollout_ref.actor.fsdp_config.param_offload=True +data.mine=3 trainer.balance_batch=False"
    script.write_text(f"python -m verl.trainer.main_ppo {kept} data.train_batch_size=512\n")
    config = trial(trainer=read_script(script).onto(TrainerChoice(name="verl", approximate=True)))

    assert start.refused(words(config, tmp_path)) == []

    held = start.composed(words(config, tmp_path))
    assert held.actor_rollout_ref.actor.fsdp_config.param_offload is True
    assert (held.data.mine, held.trainer.balance_batch, held.data.train_batch_size) == (3, False, 8)
