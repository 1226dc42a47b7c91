"""What is said of SkyRL's steps, and when it is to save, by whichever of its trainers; in its own interpreter."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.trainers.inside import MetricsWriter, grouped

SOURCE = "rlplan"  # of the problems


def follower(base: Any, run: dict[str, Any], folder: Path) -> Any:
    """Return a callback that has it saved from time to time, and says what every step did."""

    class Follower(base):
        """Writes the lines that rlplan reads."""

        def __init__(self) -> None:
            self._metrics_writer = MetricsWriter(folder, run)

        def on_train_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
            """Say that start-up is over, and where it stands."""
            self._metrics_writer.begin(callback_input.global_step)

        def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
            """Ask for a save within a long segment, and where rlplan does; a segment's end is saved anyway."""
            if self._metrics_writer.save_is_due(callback_input.global_step):
                control.should_save = True

        def on_save(self, trainer: Any, callback_input: Any, control: Any) -> None:
            """Note when."""
            self._metrics_writer.saved_at = time.monotonic()

        def on_log(self, trainer: Any, callback_input: Any, control: Any) -> None:
            """Say what SkyRL logs."""
            say_step(
                self._metrics_writer, trainer.cfg.trainer.export_path, callback_input.global_step, callback_input.logs
            )

    return Follower


def say_step(writer: MetricsWriter, exports: str, step: int, logs: dict[str, Any]) -> None:
    """Say what SkyRL logs of a step, with the score of every sample of a validation."""
    scored = any(name.startswith("eval/") for name in logs)
    writer.say(step, logs, **({"scores": grouped(scores_in(exports, step))} if scored else {}), whole=True)


def scores_in(exports: str, step: int) -> Iterator[tuple[int, float]]:
    """Yield the place and the score of each sample of a validation, from SkyRL's own dump of them."""
    dump = Path(exports) / "dumped_evals" / f"global_step_{step}_evals" / f"{SOURCE}.jsonl"
    for line in dump.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["env_extras"]["number"], sum(row["score"]) if isinstance(row["score"], list) else row["score"]
