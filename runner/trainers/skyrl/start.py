"""Starts SkyRL as run.json says, in its own environment: python start.py [--rehearse].

SkyRL's experiment is derived from, as its documentation has it: an environment with rlplan's reward, a callback that
says what it does, and a loader that keeps the plan's order. With no epoch to end, and a length that is not the
segment's, it neither saves nor scores but where that is due. Its asynchronous trainer takes no callbacks: ahead.py
has what they do.
"""

import dataclasses
import json
import sys
import typing
from pathlib import Path
from typing import Any

import typing_extensions

FOLDER = Path(__file__).absolute().parent
NAME = "rlplan"  # of the environment, and of the problems' source


def environment(base: Any, folder: Path) -> Any:
    """Return an environment of one turn that scores a response as every other trainer does."""

    class Scored(base):
        """Knows its problem by its place in the trial's file."""

        def __init__(self, env_config: Any = None, extras: Any = None) -> None:
            from runner.trainers.trial_reward import judge_in

            super().__init__()
            self._judge, self._number = judge_in(str(folder)), int(extras["number"])

        def step(self, action: str) -> dict[str, Any]:
            """Return the reward: what is trained on, or of a validation problem the plain score."""
            (score,) = self._judge.scores([self._number], [action])
            worth = self._judge.worth(self._number, score)
            return {"observations": [], "reward": worth, "done": True, "metadata": {}}

    return Scored


def in_order(base: Any, loader: Any) -> Any:
    """Return SkyRL's trainer with the prompts in the order of their data set, whose length is the horizon."""

    class OrderedData(base):
        """Takes the prompts as they come."""

        def _build_train_dataloader_and_compute_training_steps(self) -> None:
            dataset, size = self.train_dataset, self.cfg.trainer.train_batch_size
            self.train_dataloader = loader(dataset, size, shuffle=False, collate_fn=dataset.collate_fn, drop_last=True)
            self.total_training_steps = len(self.train_dataloader)  # its last step alone would be scored out of turn

    return OrderedData


def prompts_of(problems: Any, run: dict[str, Any]) -> Any:
    """Return SkyRL's data set of problems as that of the trial's prompts, each of which is a group of its own."""
    from runner.trainers.trainer_process import OrderedData

    class Prompts(OrderedData):
        """Names each by its place in the order."""

        collate_fn = staticmethod(problems.collate_fn)

        def __getitem__(self, place: int) -> Any:
            """Return a prompt, its environment, what that is told, and its name."""
            *row, _ = super().__getitem__(place)
            return *row, str(place)

    return Prompts(problems, run)


def prepare(run: dict[str, Any]) -> None:
    """Lay the model and the data files."""
    from runner.trainers.trainer_process import link_model, write_data

    link_model(FOLDER, run)
    write_data(FOLDER, run, row_of)


def row_of(number: int, problem: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a data file; one that names an environment of its own is given the answer and its other fields.

    That environment's reward is then trained on, and is the score.
    """
    from runner.ports.task import turns_of

    row = {"prompt": turns_of(problem["prompt"]), "env_class": NAME, "data_source": NAME, "number": number}
    extra = problem.get("extra") or {}
    if "env_class" not in extra:
        return row
    truth = {"method": "rule", "ground_truth": problem["answer"]}
    return {**row, "reward_spec": truth, **extra, "data_source": NAME, "number": number}


def configured(run: dict[str, Any]) -> Any:
    """Return the configuration as SkyRL's own parser and checks take it."""
    if sys.version_info < (3, 12):  # where pydantic refuses Python's own, which SkyRL's modules use
        typing.TypedDict = typing_extensions.TypedDict
    from skyrl.backends.skyrl_train.utils.ppo_utils import PolicyLossRegistry
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.utils import validate_cfg

    from runner.trainers.skyrl.hooks import register_losses

    register_losses(PolicyLossRegistry)
    cfg = SkyRLTrainConfig.from_cli_overrides(run["words"])
    validate_cfg(cfg)
    return cfg


def train(cfg: Any, run: dict[str, Any], folder: Path) -> None:
    """Train to the segment's end; SkyRL wants it in a task of Ray."""
    from skyrl.train.dataset import PromptDataset
    from skyrl.train.entrypoints.main_base import BasePPOExp
    from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
    from skyrl.train.trainer import RayPPOTrainer
    from skyrl.train.utils.callbacks import TrainingCallback
    from skyrl_gym.envs import register
    from skyrl_gym.envs.base_text_env import BaseTextEnv
    from torchdata.stateful_dataloader import StatefulDataLoader

    from runner.trainers.skyrl.hooks import ahead, follower
    from runner.trainers.trainer_process import problems_in

    register(id=NAME, entry_point=environment(BaseTextEnv, folder))
    for environment_class in {
        str((problem.get("extra") or {}).get("env_class", "")) for problem in problems_in(folder)
    }:
        if ":" in environment_class:  # module:class; the others are SkyRL's own
            register(id=environment_class, entry_point=environment_class)

    class Experiment(BasePPOExp):
        """SkyRL's, with our trainer and order."""

        def get_train_dataset(self) -> Any:
            """Return the prompts, of which SkyRL turns each problem into tokens once."""
            longest = self.cfg.trainer.max_prompt_length
            return prompts_of(PromptDataset(self.cfg.data.train_data, self.tokenizer, longest), run)

        def get_trainer(self, **arguments: Any) -> Any:
            """Return the trainer."""
            if self.cfg.trainer.fully_async.enabled:
                return ahead(FullyAsyncRayPPOTrainer, StatefulDataLoader, run, folder)(**arguments)
            called = [follower(TrainingCallback, run, folder)()]
            return in_order(RayPPOTrainer, StatefulDataLoader)(**arguments, callbacks=called)

    Experiment(cfg).run()


def main() -> None:
    """Train to the segment's end, or rehearse."""
    run = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    cfg = configured(run)
    if "--rehearse" in sys.argv:
        print(f"rlplan parsed: {json.dumps(dataclasses.asdict(cfg), default=str)}")
        return
    if sys.version_info < (3, 12):
        sys.exit("rlplan input: SkyRL trains with Python 3.12 or newer: name such an interpreter with [trainer] python")
    import ray
    from skyrl.train.utils.utils import initialize_ray

    prepare(run)
    initialize_ray(cfg)
    ray.get(ray.remote(num_cpus=1)(train).remote(cfg, run, FOLDER))


if __name__ == "__main__":
    main()
