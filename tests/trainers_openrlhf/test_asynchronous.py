"""OpenRLHF's own asynchronous trainer, with what rlplan derives from it; models, vLLM and Ray are imagined."""

import copy
import queue
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import ray
import torch

from runner.trainers.launch import opened_task
from runner.trainers.openrlhf import start
from runner.trainers.openrlhf.driver import DRIVER
from runner.trainers.trainer_process import SAVE_NOW
from tests.runner.grpo.samples import late_batch
from tests.runner.trainers.standins import attempt, trial
from tests.trainers_openrlhf.test_loop import Samples, asked, module, prompts, told

__all__ = ["module"]
BOUND = 2  # of updates that a batch may be behind


class Handle:
    """An actor: each of its methods runs in a thread."""

    def __init__(self, of: Any, threads: ThreadPoolExecutor) -> None:
        self._of, self._threads = of, threads

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._of, name)
        return SimpleNamespace(remote=lambda *given, **named: self._threads.submit(method, *given, **named))


def got(refs: Any) -> Any:
    """Return what actors have answered."""
    if isinstance(refs, list):
        return [got(each) for each in refs]
    return refs.result(timeout=60) if isinstance(refs, Future) else refs


def strategy_of(args: Any) -> Any:
    """Return what OpenRLHF has of DeepSpeed, with its arguments."""
    args.train.async_queue_size, args.data.disable_fast_tokenizer = BOUND, False
    return SimpleNamespace(args=args, setup_dataloader=MagicMock(return_value=prompts()))


def own_copy(strategy: Any) -> dict[str, Any]:
    """Return the strategy as another process has it."""
    if strategy is None:
        return {}
    return {"strategy": SimpleNamespace(args=copy.deepcopy(strategy.args), setup_dataloader=strategy.setup_dataloader)}


class Lock:
    """A lock that another thread may release."""

    def __init__(self) -> None:
        self._free = queue.Queue[None]()
        self.release()

    def acquire(self) -> None:
        self._free.get(timeout=60)

    def release(self) -> None:
        self._free.put(None)


@pytest.fixture
def beside(module: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import OpenRLHF's own module of its asynchronous trainer, whose actors are threads."""
    from openrlhf.trainer import ppo_trainer_async

    with ThreadPoolExecutor(16) as threads:

        def remote(kind: type) -> Any:
            def start_actor(**named: Any) -> Handle:
                return Handle(kind(**{**named, **own_copy(named.get("strategy"))}), threads)

            made = SimpleNamespace(remote=start_actor)
            made.__ray_metadata__ = SimpleNamespace(modified_class=SimpleNamespace(__ray_actor_class__=kind))
            return made

        monkeypatch.setattr(ray, "get", got)
        monkeypatch.setattr(ray, "remote", remote)
        for name in ("GenerateSamplesActor", "TrainingActor", "PPOTrainerAsync"):
            monkeypatch.setattr(ppo_trainer_async, name, remote(start.actor_class(getattr(ppo_trainer_async, name))))
        monkeypatch.setattr(ppo_trainer_async, "VLLMLock", remote(Lock))
        monkeypatch.setattr(ppo_trainer_async, "Queue", queue.Queue)
        monkeypatch.setattr(ppo_trainer_async, "SamplesGenerator", Batches)
        monkeypatch.setattr(module, "SamplesGenerator", Batches)
        yield ppo_trainer_async


class Weights:
    """Those that train, and those that vLLM has."""

    def __init__(self, step: int) -> None:
        self.trained = self.served = step


class Batches(Samples):
    """Notes with which weights each batch and each validation is generated."""

    weights: Weights
    scored: list[int]

    def generate_samples(self, **_: Any) -> Any:
        return [self.weights.served], None, 8, False

    def generate_eval_samples(self, **asked_for: Any) -> Any:
        self.scored.append(self.weights.served)
        return super().generate_eval_samples(**asked_for)


def trained(beside: Any, folder: Path, to_step: int, from_step: int = 0) -> tuple[list[int], list[int], list[Any]]:
    """Have OpenRLHF train to a segment's end; return how far behind each batch was, what was scored, and states."""
    Batches.weights, Batches.scored = Weights(from_step), []
    args, behind, states = asked(folder), [], []
    args.ckpt.load_enable = from_step > 0
    (Path(args.ckpt.path) / "_actor").mkdir(parents=True, exist_ok=True)

    def called(method_name: str, **given: Any) -> list[Any]:
        if method_name == "save_checkpoint":
            (Path(args.ckpt.path) / "_actor" / given["tag"]).mkdir(parents=True)
            states.append(given["client_states"])
        if method_name == "broadcast_to_vllm":
            Batches.weights.served = Batches.weights.trained
        return [{"episode": 0, "global_step": from_step, "data_loader_state_dict": {"at": from_step}}]

    def train_step(self: Any, samples: Any, step: int) -> Any:
        behind.append(Batches.weights.trained - samples[0])
        Batches.weights.trained = step + 1
        self.broadcast_to_vllm()
        return {"policy_loss": 0.5, "generated_samples": ["text", 1.0]}, step + 1

    start.actor_class(beside.TrainingActor).train_step = train_step
    group = MagicMock(async_run_method=called)
    base = start.actor_class(beside.PPOTrainerAsync)
    trainer = start.conducting(base, told(folder, from_step, to_step), folder)(
        "model", strategy_of(args), group, None, None, None, [], temperature=0.9, max_len=20
    )
    assert trainer.get_max_steps() == 10
    trainer.fit()
    return behind, Batches.scored, states


def test_its_own_loop_keeps_the_bound_scores_the_steps_that_are_due_and_ends_where_the_segment_does(
    beside: Any, tmp_path: Path
) -> None:
    behind, scored, states = trained(beside, tmp_path, to_step=7)
    assert len(behind) == 7
    assert max(behind) <= BOUND  # OpenRLHF's queue has as many batches as the bound has updates
    assert scored == [0, 3, 6]  # each with the weights of its step
    config = trial("openrlhf", "magistral")
    (source,) = DRIVER.sources(config, attempt(tmp_path))
    said = [(each.step, each.score) for each in source.read()]
    expected = [(step, None) for step in range(8)]
    assert sorted(said, key=lambda each: (each[0], each[1] is not None)) == sorted(
        [*expected, (0, 0.75), (3, 0.75), (6, 0.75)], key=lambda each: (each[0], each[1] is not None)
    )
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [7]
    assert states[-1]["global_step"] == 7


def test_it_goes_on_with_the_prompts_of_its_checkpoint_and_saves_when_that_is_asked_for(
    beside: Any, tmp_path: Path
) -> None:
    (tmp_path / SAVE_NOW).touch()
    behind, scored, states = trained(beside, tmp_path, to_step=6, from_step=4)
    assert (len(behind), scored) == (2, [6])
    assert [each["global_step"] for each in states] == [5, 6]


def test_what_ray_copies_of_its_module_is_what_is_changed(beside: Any, tmp_path: Path) -> None:
    """Ray copies a class whose module has something else by its name, and with it what its functions name."""
    base = start.actor_class(beside.PPOTrainerAsync)
    starts, kept = base.__init__, (beside.TrainingActor, beside.GenerateSamplesActor)
    copied = type(starts)(starts.__code__, dict(starts.__globals__), closure=starts.__closure__)
    conducts = start.conducting(type("Copied", (base,), {"__init__": copied}), told(tmp_path, 0, 1), tmp_path)
    made = conducts("model", strategy_of(asked(tmp_path)), MagicMock(), None, None, None, [], temperature=1.0)
    assert isinstance(made.trainer_actor._of, start.Beside)
    assert isinstance(made.generator_actor._of, start.Ahead)
    assert kept == (beside.TrainingActor, beside.GenerateSamplesActor)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_the_loss_of_a_batch_that_is_behind_is_ours(ratio: str, beside: Any, tmp_path: Path) -> None:
    config = trial("openrlhf", "magistral")
    given = {"ratio": ratio, "aggregation": "sample" if ratio == "sequence" else "token"}
    settings = config.recipe.objective.model_copy(update=given)
    config = config.model_copy(update={"recipe": config.recipe.model_copy(update={"objective": settings})})
    done = DRIVER.as_done(config)
    keys = DRIVER.job(done, opened_task(done), attempt(tmp_path)).keys
    batch, trained, expected = late_batch(settings)
    experience = start.against_sampler(SimpleNamespace(action_log_probs=trained, rollout_log_probs=batch.sampler))

    from openrlhf.models.loss import PolicyLoss

    correction = ("level", "mode", "gating", "threshold")
    low, high = keys["actor.eps_clip_low_high"]
    loss_of = PolicyLoss(
        low,
        high,
        token_level_loss=keys["actor.loss_agg_mode"] == "token-mean",
        policy_loss_type=keys["actor.policy_loss_type"],
        **{f"is_correction_{name}": keys[f"algo.advantage.is_correction_{name}"] for name in correction},
    )
    theirs = loss_of(
        batch.logprobs,
        experience.action_log_probs,
        batch.advantages[:, None].expand_as(batch.mask),
        batch.mask.float(),
        experience.rollout_log_probs,
        batch_num_tokens=float(batch.mask.sum()),
        global_batch_size=float(len(batch.mask)),
    )[0]
    torch.testing.assert_close(torch.autograd.grad(theirs, batch.logprobs)[0], expected)
