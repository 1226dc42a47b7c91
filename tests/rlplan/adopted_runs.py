"""Folders of runs as trainers leave them, made of trials that a simulated sweep has trained."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.planner.curves.reading_samples import write

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
SERIES = "val-core/openai/gsm8k/reward/mean@4"


@dataclass(frozen=True)
class Trained:
    """What a trial did: its allocation, and by step what that step took and the score, where there is one."""

    n: int
    B: int
    learning_rate: float
    steps: tuple[tuple[int, float, float | None], ...]


SECONDS = 90.0


def rising(n: int, B: int, top: float, *, rate: float | None = None, steps: int = 60) -> Trained:
    """A run whose score rises to a level, validated every fifth step."""
    scores = {step: 0.3 + (top - 0.3) * (1 - math.exp(-step / 12)) for step in range(0, steps + 1, 5)}
    own = 1e-6 * math.sqrt(n * B / 512) if rate is None else rate
    return Trained(n, B, own, tuple((s, SECONDS if s else 10.0, scores.get(s)) for s in range(steps + 1)))


FIVE = [rising(8, 64, 0.55), rising(16, 64, 0.62), rising(32, 64, 0.8), rising(64, 64, 0.7), rising(16, 128, 0.45)]


def verl_folder(folder: Path, run: Trained, *, model: str = MODEL, series: str = SERIES) -> Path:
    """Write a run as verl leaves it: a script that started it, and what it printed."""
    script = f"""#!/bin/bash
N={run.n}
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    data.train_batch_size={run.B} data.max_response_length=1024 actor_rollout_ref.model.path={model} \\
    actor_rollout_ref.rollout.n=$N actor_rollout_ref.actor.optim.lr={run.learning_rate!r} \\
    trainer.nnodes=1 trainer.n_gpus_per_node=1 "$@"
"""
    write(folder / "run_grpo.sh", script)
    lines = []
    for step, seconds, score in run.steps:
        parts = [f"step:{step}"]
        if score is not None:
            parts.append(f"{series}:{score!r}")
        if step:
            parts += [f"critic/score/mean:{step / 1000}", "response_length/mean:200.0"]
            parts += [f"timing_s/gen:{0.75 * seconds!r}", f"timing_s/step:{seconds!r}"]
        else:
            parts += [f"timing_s/testing:{seconds!r}"]
        lines.append("(TaskRunner pid=7) " + " - ".join(parts))
    write(folder / "train.log", "\n".join([*lines, ""]))
    return folder


def openrlhf_folder(folder: Path, run: Trained, *, model: str = MODEL) -> Path:
    """Write a run as OpenRLHF leaves it: its arguments as JSON, and what it printed."""
    settings = {
        "rollout": {"n_samples_per_prompt": run.n, "batch_size": run.B},
        "train": {"batch_size": run.n * run.B, "colocate_all": True},
        "actor": {"adam": {"lr": run.learning_rate}, "model_name_or_path": model, "num_gpus_per_node": 1},
        "algo": {"advantage": {"estimator": "group_norm"}},
        "vllm": {"num_engines": 1},
    }
    write(folder / "args.json", json.dumps(settings))
    lines = []
    for step, seconds, score in run.steps:
        if step:
            status = {"policy_loss": 0.1, "rollout/reward_mean": 0.5, "rollout/response_length_mean": 200.0}
            status |= {"timing/generation": 0.75 * seconds, "timing/step_total": seconds}
            lines.append(f"(PPOTrainer pid=9) ✨ Global step {step}: {status}")
        if score is not None:
            logs = {"eval_gsm8k_pass1": score, "eval_num_samples": 512}
            lines.append(f"✨ Evaluation completed in 0:00:00, global_step {step}, eval_metrics: {logs}")
    write(folder / "openrlhf.log", "\n".join([*lines, ""]))
    return folder


def folders(above: Path, runs: Sequence[Trained]) -> list[Path]:
    """Write runs of two trainers in turn."""
    makers = (verl_folder, openrlhf_folder)
    return [makers[number % 2](above / f"run-{number}", run) for number, run in enumerate(runs)]
