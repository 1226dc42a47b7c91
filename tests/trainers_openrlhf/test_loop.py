"""OpenRLHF's own loop, evaluation and console, with the trainer derived from it; models and vLLM are imagined."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from planner.curves.files.formats import table_of_printed
from planner.logs.consoles import read_printed
from runner.trainers.openrlhf.driver import DRIVER
from runner.trainers.openrlhf.start import NEEDED, Imagined, actor_class, followed
from runner.trainers.trainer_process import SAVE_NOW, ordered_problems
from tests.runner.trainers.standins import attempt, trial

REAL = ("openrlhf", "openrlhf.trainer", "openrlhf.trainer.ppo_trainer", "openrlhf.utils.logging_utils")
REAL += ("openrlhf.trainer.ppo_trainer_async", "openrlhf.models", "openrlhf.models.loss")


class Most(Imagined):
    """Everything of OpenRLHF but its loop and its logger."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in ("openrlhf", "deepspeed", "vllm") or name in REAL:
            return None
        return super().find_spec(name, path, target)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import OpenRLHF's own module of its loop, and leave no trace of it."""
    known = set(sys.modules)
    finder = Most()
    sys.meta_path.insert(0, finder)
    try:
        from openrlhf.trainer import ppo_trainer

        monkeypatch.setattr(ppo_trainer.ray, "get", lambda refs: refs)
        monkeypatch.setattr(ppo_trainer, "SamplesGenerator", Samples)
        monkeypatch.setattr(ppo_trainer, "PromptDataset", Problems)
        yield ppo_trainer
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - known:
            if name.partition(".")[0] in ("openrlhf", "deepspeed", "vllm"):
                del sys.modules[name]


class Problems(list[int]):
    """Five problems to train on, and as many to validate on."""

    collate_fn = None

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(range(5))


class Samples:
    """Hands out batches without end."""

    def __init__(self, **_: Any) -> None:
        """Take what is given."""

    def generate_samples(self, **_: Any) -> tuple[list[str], None, int, bool]:
        return ["sample"], None, 8, False

    def generate_eval_samples(self, **asked: Any) -> list[Any]:
        scores = {100: [1.0, 0.0], 101: [1.0, 1.0]}
        assert asked["n_samples_per_prompt"] == 2
        number = torch.tensor([5])
        return [
            SimpleNamespace(
                prompts=[f"p{problem}"],
                labels=[str(problem)],
                rewards=torch.tensor([score]),
                scores=torch.tensor([score]),
                response_length=number,
                truncated=number * 0,
            )
            for problem, group in scores.items()
            for score in group
        ]


def asked(folder: Path) -> Any:
    """Return what OpenRLHF's parser makes of its flags, as far as its loop looks at it."""
    return SimpleNamespace(
        train=SimpleNamespace(num_episodes=1, max_epochs=1, batch_size=32, seed=0),
        rollout=SimpleNamespace(n_samples_per_prompt=4, batch_size=8),
        data=MagicMock(max_samples=0, input_template=None, dataloader_num_workers=0),
        eval=SimpleNamespace(steps=3, dataset="x", split="train", temperature=1.0, n_samples_per_prompt=2),
        ckpt=SimpleNamespace(path=str(folder / "checkpoints"), save_steps=1, best_metric_key="none", load_enable=False),
        logger=SimpleNamespace(logging_steps=1, wandb=SimpleNamespace(key=None), tensorboard_dir=None),
        algo=SimpleNamespace(dynamic_filtering_enable=False, kl=SimpleNamespace(target=None, init_coef=0.0)),
        vllm=SimpleNamespace(enable_sleep=False),
    )


def told(folder: Path, from_step: int, to_step: int) -> dict[str, Any]:
    """Return what start.py is told of a segment."""
    order = {"count": 5, "seed": 0, "rows": 80, "pass_rates": None}
    run = {"from_step": from_step, "to_step": to_step, "save_seconds": 600.0, "validation_top_p": 1.0}
    return {**run, "metrics": attempt(folder).metrics.name, "order": order}


def prompts() -> Any:
    """Return a loader of the horizon's prompts."""
    loader = MagicMock()
    loader.__iter__.side_effect = lambda: iter([(["default"], ["p100"], ["100"], [None])])
    loader.__len__.return_value = 80
    return loader


def trained(module: Any, folder: Path, stands: dict[str, Any], to_step: int, from_step: int | None = None) -> Any:
    """Have OpenRLHF's `fit` run to a segment's end."""
    base = actor_class(module.PPOTrainer)
    assert all(hasattr(base, name) for name in NEEDED)
    args, loader = asked(folder), prompts()
    loads = MagicMock(return_value=loader)
    strategy = SimpleNamespace(args=args, setup_dataloader=loads)
    begins = stands.get("global_step", 0) if from_step is None else from_step
    run = told(folder, begins, to_step)

    class Ready(followed(base, run, folder)):
        def init_checkpoint_states(self) -> Any:
            self.actor_model_group.async_run_method = self.called
            if stands:
                self.args.ckpt.load_enable = True
                (Path(args.ckpt.path) / "_actor").mkdir(parents=True)
            return super().init_checkpoint_states()

        def called(self, method_name: str, tag: str = "", **_: Any) -> list[Any]:
            if method_name == "save_checkpoint":
                (Path(args.ckpt.path) / "_actor" / tag).mkdir(parents=True)
            return [stands]

        def train_step(self, samples: Any, step: int) -> tuple[dict[str, Any], int]:
            status = {"policy_loss": 0.5, "rollout/response_length_mean": 6.0, "timing/ppo_train": 2.0}
            return {**status, "generated_samples": ["text", 1.0]}, step + 1

    made = Ready("model", strategy, MagicMock(), None, None, None, [], temperature=0.9, max_len=20)
    assert [call.args[3] for call in loads.call_args_list] == [False, False]  # neither set of prompts is shuffled
    ordered, validated = (call.args[0] for call in loads.call_args_list)
    assert [ordered[place] for place in range(80)] == ordered_problems(run)  # each problem lies in the file once
    assert list(validated) == list(range(5))
    assert made.get_max_steps() == 10
    made.fit()
    return made


def test_its_own_loop_scores_the_base_model_and_ends_where_the_segment_does(module: Any, tmp_path: Path) -> None:
    handler = sys.modules["openrlhf.utils.logging_utils"]._default_handler
    printed = tmp_path / "console.log"
    with printed.open("w", encoding="utf-8") as console:
        before = handler.setStream(console)
        trained(module, tmp_path, {}, to_step=4)
        handler.setStream(before)

    config = trial("openrlhf")
    (source,) = DRIVER.sources(config, attempt(tmp_path))
    said = source.read()
    assert [(each.step, each.score) for each in said] == [
        *[(0, None), (0, 0.75), (1, None), (2, None), (3, None), (3, 0.75), (4, None)],
    ]
    assert said[1].score_standard_error == pytest.approx(0.25)
    assert said[2].seconds["update"] == 2.0
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [4]
    rows = read_printed(printed)  # what its own console says of the same steps, as `rlplan fit` reads it
    assert rows is not None
    assert rows.trainer == "openrlhf"
    assert list(table_of_printed(rows, "run").columns["step"]) == [0, 1, 2, 3, 3, 4]


def test_its_own_loop_goes_on_from_a_checkpoint_without_scoring_it_again(module: Any, tmp_path: Path) -> None:
    stands = {"episode": 0, "global_step": 3, "total_consumed_prompts": 24, "data_loader_state_dict": {"at": 24}}
    made = trained(module, tmp_path, stands, to_step=5)
    (source,) = DRIVER.sources(trial("openrlhf"), attempt(tmp_path))
    assert [(each.step, each.score) for each in source.read()] == [(3, None), (4, None), (5, None)]
    made.prompts_dataloader.load_state_dict.assert_called_once_with({"at": 24})


def test_one_that_stands_elsewhere_than_at_the_checkpoint_is_refused(module: Any, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="rlplan checkpoint: it stands at step 0 instead of 3"):
        trained(module, tmp_path, {}, to_step=5, from_step=3)


def test_it_saves_after_the_update_under_way_when_that_is_asked_for(module: Any, tmp_path: Path) -> None:
    (tmp_path / SAVE_NOW).touch()
    trained(module, tmp_path, {}, to_step=3)
    assert [each.step for each in DRIVER.checkpoints(trial("openrlhf"), tmp_path)] == [3, 2, 1]
