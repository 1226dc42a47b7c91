"""Makes verl's data files of our problems and starts verl; run by verl's interpreter, in a trial's folder.

`python start.py` trains. `python start.py check` has verl look at the configuration only: Hydra composes it, its
validate_config checks it, and the names that it would not check are looked up in its registries. What it refuses is
printed, a line each.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SOURCE = "rlplan"  # of all problems, by which verl groups scores
TOOLS = ("tools_kwargs", "interaction_kwargs")  # fields of a problem that its agent loops hand to tools


def rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the problems to train on and those to validate on, as verl takes them."""
    settings = json.loads(Path("reward.json").read_text(encoding="utf-8"))
    order = json.loads(Path("order.json").read_text(encoding="utf-8"))
    problems = [json.loads(line) for line in Path("problems.jsonl").read_text(encoding="utf-8").splitlines()]
    made = []
    for number, problem in enumerate(problems):
        prompt = problem["prompt"]
        chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        truth = {"style": "rule", "ground_truth": problem["answer"]}
        extra_info = problem.get("extra") or {}
        extra = {name: extra_info[name] for name in TOOLS if name in extra_info} | {"number": number, "index": number}
        made.append({"data_source": SOURCE, "prompt": chat, "reward_model": truth, "extra_info": extra})
    train = settings["train_problems"]
    return [made[number] for number in order], made[train:]


def write_data() -> None:
    """Write both files, once for all attempts."""
    from datasets import Dataset  # noqa: PLC0415

    for name, made in zip(("train.parquet", "validation.parquet"), rows(), strict=True):
        if not Path(name).exists():
            Dataset.from_list(made).to_parquet(f"{name}.writing")
            os.replace(f"{name}.writing", name)


def composed(overrides: list[str]) -> Any:
    """Return the configuration as verl's own entry point composes it."""
    import verl  # noqa: PLC0415
    from hydra import compose, initialize_config_dir  # noqa: PLC0415

    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        return compose(
            "ppo_trainer", overrides=[override for override in overrides if not override.startswith("hydra.")]
        )


def refused(overrides: list[str]) -> list[str]:
    """Return what verl refuses, and names that its registries do not hold, which it would find out too late."""
    from hydra.errors import HydraException  # noqa: PLC0415
    from omegaconf.errors import OmegaConfBaseException  # noqa: PLC0415
    from verl.experimental.reward_loop.reward_manager import registry  # noqa: PLC0415
    from verl.trainer.ppo import core_algos  # noqa: PLC0415
    from verl.trainer.ppo.utils import need_critic, need_reference_policy  # noqa: PLC0415
    from verl.utils.config import validate_config  # noqa: PLC0415

    try:
        config = composed(overrides)
        validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    except (HydraException, OmegaConfBaseException, AssertionError, ValueError, TypeError, KeyError) as error:
        return [" ".join(str(error).split())]
    actor = config.actor_rollout_ref.actor
    tables = {
        "actor_rollout_ref.actor.policy_loss.loss_mode": (actor.policy_loss.loss_mode, core_algos.POLICY_LOSS_REGISTRY),
        "algorithm.adv_estimator": (config.algorithm.adv_estimator, core_algos.ADV_ESTIMATOR_REGISTRY),
        "reward.reward_manager.name": (config.reward.reward_manager.name, registry.REWARD_MANAGER),
        "actor_rollout_ref.actor.strategy": (actor.strategy, ("fsdp", "fsdp2", "megatron", "veomni", "torchtitan")),
        "actor_rollout_ref.rollout.name": (config.actor_rollout_ref.rollout.name, ("vllm", "sglang", "trtllm")),
    }
    refusals = [
        f"{key} = {name}: it has {', '.join(map(str, names))}"
        for key, (name, names) in tables.items()
        if name not in names
    ]
    if actor.ppo_mini_batch_size > config.data.train_batch_size:  # which it looks at without dynamic batches only
        refusals.append(f"ppo_mini_batch_size = {actor.ppo_mini_batch_size} prompts of {config.data.train_batch_size}")
    return refusals


def main() -> None:
    """Check, or make the data and become verl."""
    overrides = json.loads(Path("overrides.json").read_text(encoding="utf-8"))
    if sys.argv[1:] == ["check"]:
        sys.exit("\n".join(f"rlplan input: {refusal}" for refusal in refused(overrides)) or 0)
    write_data()
    os.execv(sys.executable, [sys.executable, "-m", "verl.trainer.main_ppo", *overrides])


if __name__ == "__main__":
    main()
