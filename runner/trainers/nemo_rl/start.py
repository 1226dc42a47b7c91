"""Starts NeMo-RL's run_grpo.py with rlplan's environment, advantages and log; run by its interpreter.

`python start.py` in a trial's folder. What NeMo-RL logs is written a second time, as lines of JSON at once: its
TensorBoard files come two minutes late.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER = Path(__file__).absolute().parent
sys.path[:0] = [str(FOLDER), str(FOLDER / "parts")]

from runner.trainers.trainer_process import SAVE_NOW, MetricsWriter  # noqa: E402  (they lie in parts)

ENVIRONMENT = "rlplan_environment.RlplanEnvironment"


class NemoRlWriter(MetricsWriter):
    """Tells what NeMo-RL logs."""

    _stands = False  # whether it was said where it stands: what is logged before is of no step

    def begin(self, step: int) -> None:
        """Say where it stands."""
        self._stands = True
        self.say(step)

    def listen_to(self, logger: Any) -> None:
        """Have its Logger tell all that it logs, and the scores of a validation as it dumps them."""
        log, dump = logger.log_metrics, logger.log_batched_dict_as_jsonl
        writer = self

        def log_metrics(
            logger: Any, metrics: dict[str, Any], step: int, prefix: str = "", *rest: Any, **options: Any
        ) -> Any:
            logs = {f"{prefix}/{name}" if prefix else name: writer.number(value) for name, value in metrics.items()}
            numbers = {name: value for name, value in logs.items() if value is not None}
            if numbers and writer._stands:
                writer.say(step, numbers)
            return log(logger, metrics, step, prefix, *rest, **options)

        def log_batched_dict_as_jsonl(logger: Any, to_log: Any, filename: str) -> Any:
            if filename.startswith("val_data_step"):
                rewards, many = [float(reward) for reward in to_log["rewards"]], writer._run["samples"]
                groups = [rewards[begin : begin + many] for begin in range(0, len(rewards), many)]
                writer.say(int(Path(filename).stem.removeprefix("val_data_step")), scores=groups)
            return dump(logger, to_log, filename)

        logger.log_metrics, logger.log_batched_dict_as_jsonl = log_metrics, log_batched_dict_as_jsonl

    @staticmethod
    def number(value: Any) -> float | None:
        """Return what is a single number."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        single = getattr(value, "size", None) == 1 or (hasattr(value, "numel") and value.numel() == 1)
        return float(value.item()) if single else None


class Advantages:
    """rlplan's advantages; a prompt's responses lie together in a batch."""

    def __init__(self, per_prompt: int, settings: dict[str, Any]) -> None:
        """Take the recipe's table [advantage]."""
        section: Any = SimpleNamespace(**settings)
        self._per_prompt, self._settings = per_prompt, section

    def compute_advantage(self, prompt_ids: Any, rewards: Any, mask: Any, **_: Any) -> Any:
        """Return the advantage of every token."""
        from runner.grpo.advantages import advantages  # noqa: PLC0415

        return advantages(rewards, self._per_prompt, self._settings).unsqueeze(-1).expand(mask.shape)


def on_request(check_save: Any) -> Any:
    """Return NeMo-RL's look at its time, which is up too when rlplan asks for a save: it then saves and ends."""

    def check(timer: Any) -> bool:
        return bool(check_save(timer)) or (FOLDER / SAVE_NOW).exists()

    return check


def starting(train: Any, counter: str, saved: type, writer: NemoRlWriter) -> Any:
    """Return a loop of NeMo-RL's that first says at which step it stands, as its saved state counts them."""

    def start(*arguments: Any, **options: Any) -> Any:
        state = next(argument for argument in (*arguments, *options.values()) if isinstance(argument, saved))
        writer.begin(getattr(state, counter))
        return train(*arguments, **options)

    return start


def repeating(train: Any, repeat: Any) -> Any:
    """Return its asynchronous loop, which by itself ends after one pass through the problems."""

    def start(*, dataloader: Any, **options: Any) -> Any:
        return train(dataloader=repeat(dataloader), **options)

    return start


def against_sampler(mask: Any) -> Any:
    """Return its last look at log-probabilities before the loss, whose ratio is against the sampler's from then on.

    NeMo-RL corrects by trainer ÷ sampler beside a ratio that is 1 at one update a batch, so that it would clip nothing.
    """

    def compare(*, train_data: Any, **options: Any) -> Any:
        metrics = mask(train_data=train_data, **options)
        train_data["prev_logprobs"] = train_data["generation_logprobs"]
        return metrics

    return compare


def main() -> None:
    """Start it."""
    from nemo_rl.algorithms import grpo  # noqa: PLC0415
    from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY  # noqa: PLC0415
    from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES  # noqa: PLC0415
    from nemo_rl.environments.utils import register_env  # noqa: PLC0415
    from nemo_rl.utils.logger import Logger  # noqa: PLC0415

    run = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    paths = (str(FOLDER), str(FOLDER / "parts"), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # its actors have this environment
    ACTOR_ENVIRONMENT_REGISTRY[ENVIRONMENT] = PY_EXECUTABLES.SYSTEM
    register_env("rlplan", ENVIRONMENT)
    writer = NemoRlWriter(FOLDER, run)
    writer.listen_to(Logger)
    advantages = Advantages(run["rollouts_per_prompt"], run["advantage"])
    grpo._create_advantage_estimator = lambda _: advantages
    grpo.TimeoutChecker.check_save = on_request(grpo.TimeoutChecker.check_save)
    grpo.grpo_train = starting(grpo.grpo_train, "total_steps", grpo.GRPOSaveState, writer)
    if run.get("asynchronous"):
        from nemo_rl.data.dataloader import CyclingDataLoader  # noqa: PLC0415

        train = repeating(grpo.async_grpo_train, CyclingDataLoader)
        grpo.async_grpo_train = starting(train, "current_step", grpo.GRPOSaveState, writer)
        grpo.compute_and_apply_seq_logprob_error_masking = against_sampler(
            grpo.compute_and_apply_seq_logprob_error_masking
        )
    program = str(Path(run["checkout"]) / "examples" / "run_grpo.py")
    sys.argv = [program, "--config", str(FOLDER / "nemo.json")]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
