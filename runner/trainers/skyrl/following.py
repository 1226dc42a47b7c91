"""What is said of SkyRL's steps, and when it is to save, by whichever of its trainers; in its own interpreter."""

import json
import time
from pathlib import Path
from typing import Any

SAVE_NOW = "save-now.json"
SOURCE = "rlplan"  # of the problems


def say_where(writer: Any, run: dict[str, Any], step: int) -> None:
    """Say that start-up is over, and where it stands."""
    if step != run["from_step"]:
        raise RuntimeError(f"rlplan checkpoint: it stands at step {step} instead of {run['from_step']}")
    writer.say(step)


def say_step(writer: Any, exports: str, step: int, logs: dict[str, Any]) -> None:
    """Say what SkyRL logs of a step, with the score of every sample of a validation."""
    scored = {"scores": groups_of(exports, step)} if scores(logs) else {}
    numbers = {name: value for name, value in logs.items() if isinstance(value, int | float)}
    writer.say(step, logs=numbers, **scored, whole=True)


def save_due(run: dict[str, Any], folder: Path, saved_at: float) -> bool:
    """Whether it is to save within a segment: it has not for long, or rlplan asks for it."""
    return time.monotonic() - saved_at > run["save_seconds"] or (folder / SAVE_NOW).exists()


def scores(logs: dict[str, Any]) -> bool:
    """Whether these are the numbers of a step that was scored."""
    return any(name.startswith("eval/") for name in logs)


def groups_of(exports: str, step: int) -> list[list[float]]:
    """Return the scores of each validation problem's samples, from SkyRL's own dump of them."""
    groups: dict[int, list[float]] = {}
    dump = Path(exports) / "dumped_evals" / f"global_step_{step}_evals" / f"{SOURCE}.jsonl"
    for line in dump.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        score = sum(row["score"]) if isinstance(row["score"], list) else row["score"]
        groups.setdefault(int(row["env_extras"]["number"]), []).append(float(score))
    return [groups[number] for number in sorted(groups)]
