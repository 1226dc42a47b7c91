"""What rlplan asks of a training by TRL: a line for each step, scores at the cadence, saves, and the wait at the gate.

It runs in TRL's environment, in every process of the trial.
"""

import copy
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback

from runner.trainers.trainer_process import MARK, MetricsWriter, mark, write_whole
from runner.training.prompts import derive

FOLDER = Path.cwd()  # the trial's, where start.py starts it
GOING = "going.json"  # by the first process, for the others: up to which step they go on
TO_KEEP = 2
QUICK, SLOW = 0.02, 1.0  # seconds between looks at the gate, at first and in the end: a tenth of how long it waits
Scores = Callable[[list[int]], list[float]]  # of the trainer's last rollouts, by the numbers of their problems


class RlplanCallback(TrainerCallback):
    """Follows the training of one process; the first one writes."""

    def __init__(self, run: dict[str, Any], trainer: Any, prompts: list[Any], scores: Scores) -> None:
        self.began = False  # whether the checkpoint, if there is one, has been read
        self._run, self._trainer, self._prompts, self._scores = run, trainer, prompts, scores
        self._rank, self._count = trainer.accelerator.process_index, trainer.accelerator.num_processes
        self._metrics_writer = MetricsWriter(FOLDER, run) if self._rank == 0 else None
        self._driven = "RLPLAN_ATTEMPT" in os.environ  # not started by hand
        self._waits = 0
        self._gated = False  # whether this step is the last before the gate
        self._saved_at = time.monotonic()
        self._spent: dict[str, float] = {}
        self._step_began = self._logged_at = 0.0
        self._length: float | None = run["response_tokens"]

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Score the base model; a trial that goes on has been scored where it stands."""
        self.began = True
        self._trainer.take_rate()
        self._say(state.global_step)
        if state.global_step == 0:
            self._say(0, **self._validated(0))
        (ends,) = self._agreed(self._gate() <= state.global_step)
        if ends:
            if not self._holds():
                sys.exit(0)
            self._wait(state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Give the update the random numbers that are its own."""
        _seed(derive(self._run["seed"], "trl", state.global_step, self._rank))
        self._step_began, self._trainer.generating_seconds = time.monotonic(), 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Have it saved where the segment ends, where somebody asks for an end, and from time to time."""
        generating = self._trainer.generating_seconds
        self._spent["generate"] = generating
        self._spent["train"] = time.monotonic() - self._step_began - generating
        due = time.monotonic() - self._saved_at > self._run["save_seconds"]
        self._gated, due = self._agreed(self._gate() <= state.global_step, due)
        control.should_save = self._gated or due

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Write the line of a step; its score is in it."""
        state.log_history = []  # it would be saved with every checkpoint, and grow
        if not logs or "loss" not in logs:  # what TRL says of the whole run at its end
            return
        self._length = logs.get("completions/mean_length", self._length)
        before, after = (step * self._run["rollouts_per_step"] for step in (state.global_step - 1, state.global_step))
        every = self._run["validation"]["every_rollouts"]
        scored = self._validated(state.global_step) if after // every > before // every else {}
        metrics = scored.pop("metrics", {})
        if "rewards/pass_rate/mean" in logs:  # which TRL says of new rollouts alone
            metrics["pass_rate"] = logs["rewards/pass_rate/mean"]
        self._say(state.global_step, logs={**logs, "completions/mean_length": self._length}, metrics=metrics, **scored)
        self._logged_at = time.monotonic()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark a checkpoint as complete once all processes have written theirs, and wait at the gate."""
        folder = FOLDER / f"checkpoint-{state.global_step}"
        self._trainer.keep_rollouts(folder)
        self._trainer.accelerator.wait_for_everyone()
        if self._rank == 0:
            mark(folder, state.global_step, response_tokens=self._length)
            complete = [path.parent for path in FOLDER.glob(f"checkpoint-*/{MARK}")]  # many, before the gate
            for old in sorted(complete, key=lambda path: int(path.name.split("-")[1]))[:-TO_KEEP]:
                (old / MARK).unlink()
                shutil.rmtree(old, ignore_errors=True)
        self._saved_at = time.monotonic()
        self._spent["save"] = self._saved_at - self._logged_at
        if self._gated and self._holds():
            self._wait(state.global_step)
        elif self._gated:
            control.should_training_stop = True

    def _validated(self, step: int) -> dict[str, Any]:
        """Return the scores of the present weights on the fixed problems, and what else is to be known of them."""
        began = time.monotonic()
        plan = self._run["validation"]
        rows = [problem for problem in range(len(self._prompts)) for _ in range(plan["samples"])]
        share = -(-len(rows) // self._count)  # as many for every process: it may be a collective that answers
        mine = [(place, rows[place % len(rows)]) for place in range(self._rank * share, (self._rank + 1) * share)]
        _seed(derive(self._run["seed"], "validation", step, self._rank))
        judged: list[tuple[float, int, bool]] = []
        for start in range(0, share, plan["rows"]):
            judged += self._judged([problem for _, problem in mine[start : start + plan["rows"]]])
        places = [place for place, _ in mine]
        by_place = dict(gather_object(list(zip(places, judged, strict=True))))
        self._spent["evaluate"] = time.monotonic() - began
        scored = [by_place[place] for place in range(len(rows))]
        samples = plan["samples"]
        groups = [[sample[0] for sample in scored[start : start + samples]] for start in range(0, len(rows), samples)]
        metrics = {
            "validation_truncated_share": sum(not whole for _, _, whole in scored) / len(scored),
            "validation_response_tokens": sum(length for _, length, _ in scored) / len(scored),
        }
        return {"scores": groups, "metrics": metrics}

    def _judged(self, problems: list[int]) -> list[tuple[float, int, bool]]:
        """Return score and length of one response to each problem, and whether it was not cut off.

        Whatever the training samples with, and as many turns as that has, make them.
        """
        trainer, plan = self._trainer, self._run["validation"]
        temperature, top_p = plan["temperature"], plan["top_p"]
        numbers = [self._run["train_problems"] + problem for problem in problems]
        config, sampler = getattr(trainer, "generation_config", None), getattr(trainer, "vllm_generation", None)
        if config is not None:
            trainer.generation_config = copy.deepcopy(config)
            trainer.generation_config.update(
                do_sample=temperature > 0, temperature=temperature if temperature > 0 else 1.0, top_p=top_p
            )
        if sampler is not None:
            sampler.temperature, sampler.top_p = temperature, top_p
        try:
            trainer.answer(
                [
                    {"prompt": self._prompts[problem], "number": number}
                    for problem, number in zip(problems, numbers, strict=True)
                ]
            )
        finally:
            if config is not None:
                trainer.generation_config = config
            if sampler is not None:
                sampler.temperature, sampler.top_p = trainer.temperature, trainer.top_p
        rollouts = trainer.rollouts
        whole = [ids[-1:] == [self._run["end_id"]] for ids in rollouts.ids]
        return list(zip(self._scores(numbers), rollouts.lengths(), whole, strict=True))

    def _say(self, step: int, **fields: Any) -> None:
        if self._metrics_writer is not None:
            seconds, self._spent = self._spent, {}
            self._metrics_writer.say(step, seconds=seconds, **fields, whole=bool(fields))

    def _gate(self) -> int:
        """Return up to which step it may train; 0 when it is to stop. The first process alone reads it."""
        if not self._driven:
            return int(self._run["to_step"])
        return int(_read(FOLDER / "gate.json")["to_step"]) if self._rank == 0 else 0

    def _holds(self) -> bool:
        """Whether it waits for more at the gate; started by hand it ends there."""
        return bool(self._run["hold"]) and self._driven

    def _agreed(self, *decisions: bool) -> tuple[bool, ...]:
        """Return what the first process has decided."""
        if self._count == 1:
            return decisions
        flags = torch.tensor([int(decision) for decision in decisions], device=self._trainer.accelerator.device)
        torch.distributed.broadcast(flags, src=0)
        return tuple(bool(flag) for flag in flags.tolist())

    def _wait(self, step: int) -> None:
        """Wait with the model in memory until the gate is further on; no collective waits meanwhile."""
        self._waits += 1
        going = {"attempt": self._run["attempt"], "waits": self._waits}
        since = time.monotonic()
        if self._rank == 0:
            waiting = FOLDER / "waiting.json"
            write_whole(waiting, {"step": step})
            while (gate := self._gate()) <= step:
                if gate == 0 and not waiting.exists():  # asked to stop before it had gone on
                    write_whole(waiting, {"step": step})
                _pause(since)
            waiting.unlink(missing_ok=True)
            write_whole(FOLDER / GOING, going)
            return
        while _read(FOLDER / GOING) != going:
            _pause(since)


def _seed(number: int) -> None:
    """Begin all random numbers anew, an environment's too."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


def _pause(since: float) -> None:
    time.sleep(min(SLOW, max(QUICK, (time.monotonic() - since) / 10)))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
