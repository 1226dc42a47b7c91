"""Starts OpenRLHF's train_ppo_ray as run.json says, in its own environment: python start.py [--rehearse].

OpenRLHF has no number of steps, does not score the base model, and shuffles. So its trainer is derived from here: it
takes the prompts in the plan's order, scores before the first step, saves where a segment ends, and then
generates no more, which OpenRLHF takes for the end of its data.

Its asynchronous trainer is three: one generates, one trains, and one starts both. It would score what is loaded when it
comes to it, so that here the one that trains scores, at the step that is due.
"""

import json
import math
import runpy
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock, patch

FOLDER = Path(__file__).absolute().parent
PROGRAM = "openrlhf.cli.train_ppo_ray"
REAL = ("openrlhf", "openrlhf.cli", PROGRAM, "openrlhf.utils.config")  # when its parser is rehearsed
Trainer: Any = object  # `followed` puts OpenRLHF's in its place
NEEDED = ("fit", "evaluate", "save_logs_and_checkpoints", "init_checkpoint_states", "get_max_steps")
NEEDED_BESIDE = ("fit", "save_logs_and_checkpoints", "init_checkpoint_states", "broadcast_to_vllm")


def followed(base: type, run: dict[str, Any], folder: Path) -> type:
    """Return OpenRLHF's trainer with what rlplan asks of it."""
    return type("Followed", (Follower, base), {"_run": run, "_folder": folder})


class Follower(Trainer):
    """What is before a trainer of OpenRLHF: goes to the segment's end and says what it does on the way."""

    _run: dict[str, Any]
    _folder: Path

    def __init__(self, pretrain: str, strategy: Any, *arguments: Any, **generating: Any) -> None:
        from runner.trainers.trainer_process import MetricsWriter

        self._metrics_writer = MetricsWriter(self._folder, self._run)
        self._step = 0
        self._generating = generating
        self._evaluated: list[Any] = []
        with in_order(strategy, self._run):
            self._begin(pretrain, strategy, *arguments, **generating)
        samples = self.samples_generator
        generate, answer = samples.generate_samples, samples.generate_eval_samples
        samples.generate_samples = lambda **options: (
            ([], None, 0, True) if self._step >= self._run["to_step"] else generate(**options)
        )
        samples.generate_eval_samples = lambda **options: self._record_samples(answer(**options))

    def _begin(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)

    def get_max_steps(self) -> int:
        """Return the updates of the horizon, by which its schedule counts the warm-up."""
        return horizon_updates(self._run, self.args)

    def init_checkpoint_states(self) -> Any:
        """Say where it stands, and score the base model."""
        states = super().init_checkpoint_states()
        self._step = states.get("global_step", 0)
        self._metrics_writer.begin(self._step)
        if self._step == 0:
            self._validate(0)
        return states

    def save_logs_and_checkpoints(self, global_step: int, logs_dict: Any = None, client_states: Any = None) -> None:
        """Save at the segment's end, from time to time, and where rlplan asks for it."""
        self._step, began = global_step, time.monotonic()
        saves = global_step >= self._run["to_step"] or self._metrics_writer.save_is_due(global_step)
        self.args.ckpt.save_steps = 1 if saves else math.inf
        super().save_logs_and_checkpoints(global_step, logs_dict, client_states)
        seconds = {}
        if saves:
            from runner.trainers.trainer_process import mark

            mark(Path(self.args.ckpt.path) / "_actor" / f"global_step{global_step}", global_step)
            self._metrics_writer.saved_at = time.monotonic()
            seconds["save"] = self._metrics_writer.saved_at - began
        scored = global_step % self.args.eval.steps == 0
        self._metrics_writer.say(global_step, logs_dict or {}, seconds=seconds, whole=not scored)

    def evaluate(self, global_step: int, **generating: Any) -> Any:
        """Say the score of every sample of every problem, of which OpenRLHF logs the mean."""
        from runner.trainers.trainer_process import group_scores

        began = time.monotonic()
        logs = super().evaluate(global_step, **generating | {"top_p": self._run["validation_top_p"]})
        scores = group_scores((sample.labels[0], sample.scores[0]) for sample in self._evaluated)
        self._evaluated = []
        took = {"validation": time.monotonic() - began}
        self._metrics_writer.say(global_step, scores=scores, seconds=took, whole=True)
        return logs

    def _validate(self, step: int) -> None:
        settings = self.args.eval
        how = {"temperature": settings.temperature, "n_samples_per_prompt": settings.n_samples_per_prompt}
        self.evaluate(step, **{**self._generating, **how})

    def _record_samples(self, samples: Any) -> Any:
        self._evaluated = samples
        return samples


class Beside(Follower):
    """What is before OpenRLHF's TrainingActor: scores by itself, and takes the ratio against what vLLM said."""

    _sampling: dict[str, Any]

    def _begin(self, pretrain: str, strategy: Any, *arguments: Any, **options: Any) -> None:
        from openrlhf.trainer import ppo_trainer

        super()._begin(pretrain, strategy, *arguments, **options)
        self._generating = self._sampling
        prompts, self.eval_dataloader, _ = ppo_trainer.prepare_datasets(strategy, self.tokenizer)
        loaders = {"prompts_dataloader": prompts, "eval_dataloader": self.eval_dataloader}
        self.samples_generator = ppo_trainer.SamplesGenerator(
            strategy=strategy, tokenizer=self.tokenizer, vllm_engines=self.vllm_engines, **loaders
        )
        make = self.experience_maker.make_experience
        self.experience_maker.make_experience = lambda samples: [
            against_sampler(experience) for experience in make(samples)
        ]

    def save_logs_and_checkpoints(self, global_step: int, logs_dict: Any = None, client_states: Any = None) -> None:
        """Save where that is due, and score where that is."""
        super().save_logs_and_checkpoints(global_step, logs_dict, client_states)
        if global_step % self.args.eval.steps == 0:
            self._validate(global_step)

    def _validate(self, step: int) -> None:
        """Score the weights of a step, while no others are generated with."""
        import ray

        ray.get(self.vllm_lock.acquire.remote())
        try:
            super()._validate(step)
        finally:
            ray.get(self.vllm_lock.release.remote())


class Ahead(Trainer):
    """What is before OpenRLHF's GenerateSamplesActor: makes the segment's batches in order, and scores nothing."""

    _run: dict[str, Any]

    def __init__(self, pretrain: str, strategy: Any, *arguments: Any, **options: Any) -> None:
        strategy.args.eval.steps = math.inf
        with in_order(strategy, self._run):
            super().__init__(pretrain, strategy, *arguments, **options)
        self._left = self._run["to_step"] - self._run["from_step"]
        self._generate = self.samples_generator.generate_samples
        self.samples_generator.generate_samples = self._next_batch

    def get_max_steps(self) -> int:
        """Return the updates of the horizon."""
        return horizon_updates(self._run, self.args)

    def _next_batch(self, **options: Any) -> Any:
        if not self._left:
            return [], None, 0, True
        made = self._generate(**options)
        self._left -= bool(made[0])
        return made


def conducting(base: type, run: dict[str, Any], folder: Path) -> type:
    """Return OpenRLHF's PPOTrainerAsync, which in its own process has ours generate and train."""
    starts: Any = base.__init__  # type: ignore[misc]

    def begin(self: Any, *arguments: Any, **sampling: Any) -> None:
        import ray
        from openrlhf.trainer import ppo_trainer

        attributes = {"_run": run, "_folder": folder, "_sampling": sampling}
        validating = type("Validating", (), {"evaluate": actor_class(ppo_trainer.PPOTrainer).evaluate})
        names = starts.__globals__  # those of its module, or what Ray has copied of them
        for name, bases in (("TrainingActor", (Beside, validating)), ("GenerateSamplesActor", (Ahead,))):
            ours, *others = bases
            names[name] = ray.remote(type(name, (ours, actor_class(names[name]), *others), attributes))
        starts(self, *arguments, **sampling)

    return type("Conducts", (base,), {"__init__": begin})


@contextmanager
def in_order(strategy: Any, run: dict[str, Any]) -> Iterator[None]:
    """Have OpenRLHF load the prompts to train on in the plan's order; it shuffles those alone."""
    from runner.trainers.trainer_process import OrderedData

    loads = strategy.setup_dataloader
    strategy.setup_dataloader = lambda data, size, pin=False, shuffle=True, *rest, **options: loads(
        OrderedData(data, run) if shuffle else data, size, pin, False, *rest, **options
    )
    yield
    del strategy.setup_dataloader


def horizon_updates(run: dict[str, Any], args: Any) -> int:
    """Return the updates that the trial's data last for."""
    return int(run["order"]["rows"] * args.rollout.n_samples_per_prompt // args.train.batch_size)


def against_sampler(experience: Any) -> Any:
    """Return an experience whose old probabilities are the sampler's."""
    experience.action_log_probs = experience.rollout_log_probs
    return experience


def actor_class(remote: Any) -> Any:
    """Return the class of which Ray makes actors."""
    return remote.__ray_metadata__.modified_class.__ray_actor_class__


def require(base: type, names: tuple[str, ...]) -> None:
    """End where OpenRLHF is another than the one that this is written for."""
    if missing := [name for name in names if not hasattr(base, name)]:
        sys.exit(f"rlplan input: this OpenRLHF is another than 0.11.2: its trainer has no {', '.join(missing)}")


class Imagined(MetaPathFinder, Loader):
    """Every module that OpenRLHF's parser does not need is a mock, so that it takes no GPU and no time."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Leave Python's own modules, and those of REAL, to the others."""
        top = name.partition(".")[0]
        is_stub = top in ("ray", "torch", "transformers", "deepspeed", "vllm", "openrlhf") and name not in REAL
        return ModuleSpec(name, self, is_package=True) if is_stub else None

    def create_module(self, spec: ModuleSpec) -> Any:
        """Return a module that has whatever is asked of it."""
        module = MagicMock(name=spec.name)
        top, *below = spec.name.split(".")
        real = Path(sys.modules[top].__path__[0], *below) if below and top == "openrlhf" else FOLDER / "nowhere"
        module.__spec__, module.__path__, module.__name__ = spec, [str(real)], spec.name
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def rehearse(arguments: list[str]) -> None:
    """Have OpenRLHF parse and check the flags, by whole names, and print what it made of them."""
    parse: Any = ArgumentParser.parse_args
    made: dict[str, Any] = {}

    def strictly(parser: ArgumentParser) -> Any:
        parser.allow_abbrev = False  # else '--eval.step' would be taken for '--eval.steps'
        parsed = parse(parser)
        made.update(vars(parsed))
        return parsed

    sys.meta_path.insert(0, Imagined())
    sys.argv = [PROGRAM, *arguments]
    with patch.object(ArgumentParser, "parse_args", strictly):
        runpy.run_module(PROGRAM, run_name="__main__")
    print(f"rlplan parsed: {json.dumps(made, default=str)}")


def prepare(run: dict[str, Any]) -> None:
    """Lay the model and the data files."""
    from transformers import AutoTokenizer

    from runner.trainers.trainer_process import link_model, write_data

    tokenizer = AutoTokenizer.from_pretrained(link_model(FOLDER, run))
    write_data(FOLDER, run, lambda number, its: {"input": text_of(tokenizer, its["prompt"]), "label": str(number)})


def text_of(tokenizer: Any, prompt: Any) -> str:
    """Return a prompt as the model is to see it, to which OpenRLHF adds nothing."""
    if tokenizer.chat_template:
        from runner.ports.task import turns_of

        return str(tokenizer.apply_chat_template(turns_of(prompt), tokenize=False, add_generation_prompt=True))
    if not isinstance(prompt, str):
        sys.exit("rlplan input: a problem is a list of turns, and the model has no chat template: give it as text")
    begins = tokenizer(prompt)["input_ids"][:1] == [tokenizer.bos_token_id]
    return f"{tokenizer.bos_token}{prompt}" if begins else prompt


def main() -> None:
    """Train to the segment's end, or rehearse."""
    run = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    if "--rehearse" in sys.argv:
        rehearse(run["words"])
        return
    import ray
    from openrlhf.trainer import ppo_trainer
    from openrlhf.trainer.ray.launcher import RayActorGroup

    prepare(run)
    require(actor_class(ppo_trainer.PPOTrainer), NEEDED)
    if run.get("asynchronous"):
        from openrlhf.trainer import ppo_trainer_async

        require(actor_class(ppo_trainer_async.TrainingActor), NEEDED_BESIDE)
        conducts = conducting(actor_class(ppo_trainer_async.PPOTrainerAsync), run, FOLDER)
        ppo_trainer_async.PPOTrainerAsync = ray.remote(conducts)
    else:
        ppo_trainer.PPOTrainer = ray.remote(followed(actor_class(ppo_trainer.PPOTrainer), run, FOLDER))
    RayActorGroup.async_save_model = lambda group: []  # the model at its end: the checkpoint has it
    sys.argv = [str(FOLDER / "start.py"), *run["words"]]
    runpy.run_module(PROGRAM, run_name="__main__")


if __name__ == "__main__":
    main()
