"""What the drivers of all named trainers do: what each refuses, starts, and takes for whole.

None of these trainers is needed: tests/trainers_* and tests/trl ask their own parsers, loggers and losses.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgets.cost import step_cost
from budgets.errors import InputError
from planner.config.schema import Config
from planner.recipes import recipe_names
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig
from runner.trainers.base import FIRST
from runner.trainers.capabilities import degree
from runner.trainers.catalogue import driver_of, named_driver
from runner.trainers.keys import require_known
from runner.trainers.launch import opened_task
from tests.budgets.traits import TRAITS
from tests.budgets.workloads import hardware_of, workload_of
from tests.runner.trainers.standins import attempt, launched

TAKING = ("trl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime")
NAMED = ("trl", "verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime")
OWN_RAY = ("verl", "openrlhf", "skyrl", "nemo-rl", "slime")
TWO_NODES = Machine(gpus=4, nodes=2, device="cuda", engine="vllm")
ADAPTED = Machine(gpus=4, device="cuda", engine="vllm", lora_rank=32)
Made = Callable[..., TrialConfig]
LATE = {
    "name": "late",
    "objective": {"against": "sampler"},
    "precision": {"fp32_head": False},
    "schedule": {"staleness_bound": 2},
}
REFILLS = Recipe.model_validate({**LATE, "filters": {"zero_variance": "refill"}})
SHORTENS = Recipe.model_validate({**LATE, "rewards": {"overlong_share": 0.2}})


@pytest.mark.parametrize(
    ("trainer", "recipe", "laid", "tracker", "steps"),
    [
        ("trl", "plain", ["checkpoint-3/complete.json", "checkpoint-12/complete.json", "checkpoint-20/x"], {}, [12, 3]),
        (
            "verl",
            "plain",
            [f"checkpoints/global_step_{n}/{part}" for n in (2, 4) for part in ("actor/x", "data.pt")]
            + ["checkpoints/global_step_6/actor/x"],
            {},
            [4, 2],
        ),
        (
            "verl",
            "plain",
            [f"checkpoints/global_step_{n}/{part}" for n in (2, 4) for part in ("actor/x", "data.pt")],
            {"checkpoints/latest_checkpointed_iteration.txt": "2"},
            [2],
        ),
        ("verl", "gspo", [f"checkpoints/global_step_2/{part}" for part in ("actor/x", "data.pt")], {}, [8]),
        (
            "prime-rl",
            "plain",
            [f"run/checkpoints/step_{n}/orchestrator/progress.pt" for n in (2, 4)]
            + ["run/checkpoints/step_2/trainer/.metadata"],
            {},
            [2],
        ),
        (
            "openrlhf",
            "gspo",
            [f"checkpoints/_actor/{name}" for name in ("global_step3/complete.json", "global_step4/x", "best_step4/x")],
            {},
            [12],
        ),
        (
            "skyrl",
            "plain",
            ["checkpoints/global_step_2/data.pt"]
            + [f"checkpoints/global_step_{n}/{part}" for n in (4, 6) for part in ("trainer_state.pt", "data.pt")],
            {"checkpoints/latest_ckpt_global_step.txt": "4"},
            [4],
        ),
        ("nemo-rl", "gspo", [f"checkpoints/{name}/x" for name in ("step_1", "step_2", "tmp_step_3")], {}, [8, 4]),
        (
            "slime",
            "plain",
            [f"checkpoints/iter_{batch:07d}/x" for batch in (1, 3, 5)]
            + [f"checkpoints/rollout/global_dataset_state_dict_{batch}.pt" for batch in (1, 3)],
            {},
            [4, 2],
        ),
    ],
)
def test_a_checkpoint_counts_once_it_is_whole(
    trainer: str, recipe: str, laid: list[str], tracker: dict[str, str], steps: list[int], made: Made, tmp_path: Path
) -> None:
    for name in laid:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name, text in tracker.items():
        (tmp_path / name).write_text(text)
    config = made(trainer, recipe)
    assert [each.step for each in driver_of(config).checkpoints(config, tmp_path)] == steps


WRONG = "rlplan sets that itself"


@pytest.mark.parametrize(
    ("trainer", "changes", "named"),
    [
        ("trl", {"machine": Machine(gpus=5)}, "32 rollouts on 5 GPUs.*Use B = 5 or 10, or 4 GPUs"),
        ("trl", {"machine": Machine(engine="vllm")}, "vLLM on GPUs only"),
        ("trl", {"growth": "4x"}, "growth with --trainer trl: TRL's batch is constant"),
        ("trl", {"options": {"held": True}}, "unknown key 'held'.*hold"),
        ("trl", {"options": {"settings": {"temperature": 0.7}}}, f"temperature: {WRONG}"),
        ("trl", {"options": {"settings": {"max_staleness": 4}}}, "max_staleness with --trainer trl: .*scores no valid"),
        ("trl", {"options": {"accelerate": "/gone.yaml"}}, "there is no file /gone.yaml"),
        ("trl", {"task": TaskChoice(name="sum-eazy")}, "did you mean 'sum-easy'"),
        ("trl", {"recipe": "dapo"}, "filters.zero_variance = 'refill', but it keeps every group"),
        ("verl", {"machine": Machine()}, "servers that need GPUs"),
        ("verl", {"growth": "4x"}, "growth with --trainer verl: verl's batch is constant"),
        ("verl", {"options": {"tensor_parallel": 3}}, "tensor_parallel = 3 on 4 GPUs of a node"),
        ("verl", {"recipe": "magistral", "options": {"tensor_parallel": 4}}, "tensor_parallel = 4 on 2 GPUs of a node"),
        ("verl", {"recipe": "magistral", "machine": Machine(gpus=1, device="cuda")}, "Use at least 2 GPUs"),
        ("verl", {"recipe": "magistral", "machine": ADAPTED}, "its engines of their own are sent no adapters"),
        ("verl", {"options": {"rolout": "vllm"}}, "unknown key 'rolout'.*rollout"),
        ("verl", {"options": {"settings": {"data.train_batch_size": 1024}}}, f"data.train_batch_size: {WRONG}"),
        ("prime-rl", {"machine": Machine(gpus=1)}, "Use at least 2 GPUs"),
        ("prime-rl", {"machine": Machine(gpus=4, nodes=2)}, "by Slurm alone"),
        ("prime-rl", {"options": {"train_gpus": 4}}, "of which 4 train"),
        ("prime-rl", {"options": {"settings": {"trainer.optim.lr": 1.0}}}, WRONG),
        ("prime-rl", {"task": TaskChoice(name="sum-easy")}, "no chat template, and prime-rl asks in chats"),
        ("prime-rl", {"recipe": "cispo"}, "prime-rl cannot train"),
        ("openrlhf", {"machine": Machine()}, "OpenRLHF trains on GPUs, with vLLM"),
        ("openrlhf", {"prompts_per_batch": 7, "rollouts_per_prompt": 3}, "n = 3 · B = 7 = 21 rollouts on 4 GPUs"),
        ("openrlhf", {"options": {"vllm_gpus": 4}}, "of which 0 train.*vllm_gpus of less than all"),
        (
            "openrlhf",
            {"recipe": "magistral", "options": {"vllm_gpus": 1}, "machine": TWO_NODES},
            "vllm_gpus of a multiple",
        ),
        (
            "openrlhf",
            {"recipe": "magistral", "options": {"tensor_parallel": 4}},
            "must divide the 2 GPUs that vLLM has",
        ),
        ("openrlhf", {"options": {"tensor_parallel": 3}}, "tensor_parallel = 3: it must divide the 4 GPUs"),
        ("openrlhf", {"options": {"settings": {"rollout.batch_size": 4}}}, f"rollout.batch_size: {WRONG}"),
        ("openrlhf", {"options": {"settings": {"train.async_enable": True}}}, f"train.async_enable: {WRONG}"),
        ("openrlhf", {"options": {"horizon": 4}}, "unknown key 'horizon'"),
        ("openrlhf", {"recipe": "cispo"}, r"objective.clip = 'cispo', which it has not"),
        ("skyrl", {"options": {"settings": {"trainer.fully_async.enabled": True}}}, f"fully_async.enabled: {WRONG}"),
        ("skyrl", {"recipe": "magistral", "machine": Machine(gpus=1, device="cuda", engine="vllm")}, "at least 2 GPUs"),
        ("skyrl", {"options": {"settings": {"trainer.seed": 4}}}, f"trainer.seed: {WRONG}"),
        ("nemo-rl", {"options": {"checkout": None}}, "checkout"),
        ("nemo-rl", {"options": {"settings": {"grpo.seed": 1}}}, WRONG),
        ("nemo-rl", {"options": {"settings": {"grpo.val_perid": 5}}}, r"did you mean 'grpo\.val_period'"),
        ("nemo-rl", {"machine": Machine(gpus=5)}, "32 rollouts on 5 GPUs"),
        ("nemo-rl", {"prompts_per_batch": 60}, "is drawn without repeating any"),
        ("nemo-rl", {"recipe": "magistral", "machine": Machine()}, "Use at least 2 GPUs"),
        ("nemo-rl", {"recipe": "magistral", "machine": TWO_NODES, "options": {"train_gpus": 3}}, "a multiple of 2"),
        ("nemo-rl", {"recipe": REFILLS}, "its asynchronous training has no dynamic sampling; set 'keep'"),
        ("nemo-rl", {"recipe": SHORTENS}, "its asynchronous training shapes no rewards; set 0"),
        ("slime", {"recipe": "scalerl", "options": {"train_gpus": 4}}, "of which 4 train.*train_gpus of less than all"),
        ("slime", {"options": {"train_gpus": 2}}, "train_gpus = 2 with --trainer slime: without a staleness bound all"),
        ("slime", {"options": {"model_args": "none.sh"}}, "No such file"),
        ("slime", {"options": {"megatron": None}}, "megatron"),
        ("slime", {"options": {"settings": {"--lr": 1}}}, WRONG),
        ("slime", {"options": {"settings": {"--max-token-per-gpu": 5}}}, "did you mean 'max-tokens-per-gpu'"),
        ("slime", {"task": TaskChoice(name="sum-easy")}, "a tokenizer of its own"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_can(
    trainer: str, changes: dict[str, Any], named: str, made: Made
) -> None:
    config = made(trainer, **changes)
    with pytest.raises(InputError, match=named):
        driver_of(config).check(config)


@pytest.mark.parametrize(
    ("trainer", "recipe", "named"),
    [
        ("trl", "minimax", "objective.aggregation = 'prompt', but this loss of it has 'token'"),
        ("verl", "scalerl", "filters.zero_variance = 'drop', but it keeps groups without a gradient"),
        ("verl", "minimax", "warmup_steps = 100, but its rate is one for all updates of a batch"),
        ("verl", "cispo", "fp32_head = true, but its output head"),
        ("prime-rl", "hard", "staleness_bound = 0, but it always generates while it trains"),
        ("openrlhf", "magistral", "advantage.scale = 'batch', where it centres"),
        ("skyrl", "dapo", "rewards.overlong_share = 0.2, but a reward of it"),
        ("nemo-rl", "scalerl", "retire_at = 0.9, but it asks every prompt again"),
        ("slime", "magistral", "staleness_bound = 8, but its train_async.py is one batch ahead: set 1"),
        ("skyrl", "hard", "warmup_steps = 10, whose first update has a rate of 0"),
    ],
)
def test_what_it_does_otherwise_is_named_and_run_only_where_that_is_wanted(
    trainer: str, recipe: str, named: str, made: Made
) -> None:
    config = made(trainer, recipe, prompts_per_batch=1)
    driver_of(config).check(config)
    config = made(trainer, recipe, prompts_per_batch=1, approximate=False)
    with pytest.raises(InputError, match=f"{named}.*With --approximate it is run so"):
        driver_of(config).check(config)


@pytest.mark.parametrize("trainer", [name for name in NAMED if name != "prime-rl"])
def test_what_a_plan_takes_without_a_word_is_trained_exactly(trainer: str, made: Made) -> None:
    default = Config.model_fields["recipe"].get_default(call_default_factory=True).name
    config = made(trainer, default, approximate=False)
    driver_of(config).check(config)


@pytest.mark.parametrize("recipe", recipe_names())
@pytest.mark.parametrize("trainer", TAKING)
def test_every_recipe_that_is_accepted_becomes_keys_that_it_has(trainer: str, recipe: str, made: Made) -> None:
    config, driver = made(trainer, recipe, prompts_per_batch=1), named_driver(trainer)
    assert driver is not None
    if degree(driver.differences(config.recipe)) == "refused":
        with pytest.raises(InputError, match=f"{driver.title} cannot train"):
            driver.check(config)
        return
    done = driver.as_done(config)
    keys = driver.job(done, opened_task(done), FIRST).keys
    unlisted = ("defaults", *driver.others)  # the first is the file that NeMo-RL's own keys come from
    require_known(trainer, [key for key in keys if not key.startswith(unlisted)])


@pytest.mark.parametrize("trainer", OWN_RAY)
def test_every_host_starts_a_node_of_the_trials_own_ray_and_the_head_alone_the_trainer(
    trainer: str, made: Made, tmp_path: Path
) -> None:
    config = made(trainer, machine=TWO_NODES)
    head, other = (launched(config, attempt(tmp_path, number=2), rank) for rank in (0, 1))
    assert head.argv[:2] == other.argv[:2] == ("/opt/its/bin/python", str(tmp_path / "in_own_ray.py"))
    assert head.argv[-2:] == ("/opt/its/bin/python", "start.py")
    assert "start.py" not in other.argv
    assert {"start.py", "problems.jsonl", "parts/runner/trainers/trial_reward.py"} <= head.files.keys()
    assert {*other.files} == {"in_own_ray.py"}
    assert other.environment["CUDA_VISIBLE_DEVICES"] == "2,3"


@pytest.mark.parametrize(
    ("trainer", "tail", "kind"),
    [
        ("trl", "Loading…\nrlplan input: ValueError: no\n", "input"),
        ("trl", "rlplan checkpoint: EOFError: \n", "checkpoint"),
        ("trl", "Killed", None),
        ("verl", "Could not override 'data.trian_batch_size'.\nKey 'trian_batch_size' is not in struct", "input"),
        ("verl", "ValueError: Total available GPUs 0 is less than total desired GPUs 1", "input"),
        ("verl", "ray.exceptions.OutOfMemoryError: killed due to the node running low on memory.", "out-of-memory"),
        ("verl", "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(", "hang"),
        ("verl", "Traceback (most recent call last):", None),
        ("prime-rl", "Traceback\nFileExistsError: Run directory 'x/run' already contains artifacts", "input"),
        ("prime-rl", "RuntimeError: x", None),
        ("openrlhf", "RuntimeError: rlplan checkpoint: it stands at step 0 instead of 3\n", "checkpoint"),
        ("openrlhf", "[deepspeed] No checkpoint found at /x/_actor", "checkpoint"),
        ("skyrl", "RayTaskError: RuntimeError: rlplan checkpoint: it stands at step 0 instead of 3\n", "checkpoint"),
        ("skyrl", "FileNotFoundError: Trainer state file not found: /x", "checkpoint"),
        ("nemo-rl", "pydantic: 2 validation errors for MasterConfig\nend", "input"),
        ("slime", "train.py: error: unrecognized arguments: --x", "input"),
    ],
)
def test_its_words_of_failure_are_known(trainer: str, tail: str, kind: str | None, made: Made) -> None:
    known = driver_of(made(trainer)).classify(1, tail)
    assert (known[0] if known else None) == kind


@pytest.mark.parametrize(
    ("trainer", "share", "changes", "trains"),
    [
        ("slime", 0.25, {}, 2),
        ("slime", 0.375, {}, 4),  # of 32 rollouts three GPUs have no equal shares
        ("slime", 0.25, {"options": {"train_gpus": 4}}, 4),
        ("slime", None, {}, 4),
        ("verl", 0.375, {}, 3),
        ("verl", 0.375, {"options": {"tensor_parallel": 4}}, 4),
        ("skyrl", 0.25, {}, 2),
        ("skyrl", 0.25, {"options": {"vllm_gpus": 4}}, 4),
        ("nemo-rl", 0.375, {"machine": {"nodes": 4}}, 4),  # whole nodes
    ],
)
def test_gpus_are_split_as_a_plan_is_priced(
    trainer: str, share: float | None, changes: dict[str, Any], trains: int, made: Made
) -> None:
    options, machine = changes.get("options", {}), changes.get("machine", {})
    asked = Machine(device="cuda", engine="vllm", gpus=8, training_share=share, **machine)
    config = made(trainer, "magistral", machine=asked, options=options)
    driver = named_driver(trainer)
    assert driver is not None
    config = driver.as_done(config)
    driver.check(config)
    assert driver.job(config, opened_task(config), FIRST).train_gpus == trains


@pytest.mark.parametrize(("gpus", "nodes"), [(4, 1), (8, 1), (16, 2), (64, 8)])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
@pytest.mark.parametrize("trainer", ["verl", "skyrl", "slime", "nemo-rl"])
def test_what_is_priced_is_what_trains(trainer: str, share: float, gpus: int, nodes: int, made: Made) -> None:
    n, B = 16, 16
    workload = workload_of("qwen2.5-0.5b", mean_share=share)
    split = step_cost(workload, hardware_of(gpus=gpus), TRAITS["magistral"], n, B).placement
    machine = Machine(device="cuda", engine="vllm", gpus=gpus, nodes=nodes, training_share=split.training_share)
    config = made(trainer, "magistral", machine=machine, rollouts_per_prompt=n, prompts_per_batch=B)
    driver = named_driver(trainer)
    assert driver is not None
    config = driver.as_done(config)
    assert driver.job(config, opened_task(config), FIRST).train_gpus == split.trainer_gpus
