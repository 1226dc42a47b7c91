"""prime-rl's two files of metrics.

A validation is of the weights that its policy_version names, and is said of a later step, after others have been
trained: what follows the earliest version that it may be of waits until it is said.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import fmean, stdev

from planner.logs.consoles import CLOCK, prime_rl_values
from planner.logs.series import matching, ours_of
from planner.logs.trainers import load_trainer
from runner.trainers.driver import Attempt, Reading
from runner.trainers.metric_lines import Lines

_BEHIND = 3  # updates that a validation's weights may be behind the step that it is said of
_TRAINED = "time/forward_backward"  # in the trainer's last row of a step
_SHIPPED = "time/pack"  # in the orchestrator's row of a step
_MEAN = "avg@"
_PRIME_RL = load_trainer("prime-rl")


class StepSource:
    """The steps of an attempt in their order, each as soon as all is known of it."""

    def __init__(self, attempt: Attempt, files: tuple[Path, Path], traces: Path, every: int, validation: str) -> None:
        """Take the files of orchestrator and trainer, the folder of traces, and how often what is validated."""
        self._files = [Lines(path) for path in files]
        self._traces, self._validation, self._attempt = traces, f"eval/{validation}/", attempt
        first = attempt.from_step + 1
        due = {step for step in range(first, attempt.to_step + 2) if step % every == 0}
        self._due = due | ({1} if not attempt.from_step and attempt.to_step else set())
        self._rows: dict[int, dict[str, float]] = defaultdict(dict)
        self._scores: dict[int, Reading] = {}
        self._begins_at: float | None = None

    def read(self) -> list[Reading]:
        """Return the steps of which all is known now."""
        trained = self._files[1].new()  # its row ends a step: what the orchestrator says of that was there before
        for line in (*self._files[0].new(), *trained):
            if (record := prime_rl_values(line)) is not None and record[0] is not None:
                self._take(record[0], record[1])
        return list(self._released())

    def _take(self, step: int, row: dict[str, float]) -> None:
        if any(name.startswith(self._validation) for name in row):
            self._due.discard(step)
            version = int(row.get(f"{self._validation}policy_version", step))
            names = [name for pattern in _PRIME_RL.validation for name in matching(pattern, row) if _MEAN in name]
            if names:
                error = standard_error(self._traces / f"step_{step}" / "eval" / "effective" / "traces.jsonl")
                self._scores[version] = Reading(version, row[names[0]], error, at_seconds=row[CLOCK])
            return
        if self._begins_at is None and _SHIPPED in row:
            self._begins_at = row[CLOCK] - row.get("time/step", 0.0)
            self._rows[self._attempt.from_step] |= {CLOCK: self._begins_at}
        merged = self._rows[step]
        merged |= row

    def _released(self) -> Iterator[Reading]:
        """Yield what nothing can be added to any more; of an attempt that has ended (to_step 0) all that is whole."""
        until = min(self._due, default=None)
        for step in sorted(self._rows):
            row = self._rows[step]
            begins = step == self._attempt.from_step and _TRAINED not in row
            if until is not None and step >= max(int(until > 1), until - _BEHIND):
                return
            if not begins and not {_TRAINED, _SHIPPED} <= row.keys():
                if self._attempt.to_step:
                    return
                continue
            del self._rows[step]
            ours, seconds = ours_of(_PRIME_RL, row)
            length = ours.pop("response_tokens", None)
            seconds.pop("step", None)
            if begins:
                yield Reading(step, at_seconds=row[CLOCK])
            else:
                yield Reading(step, None, None, length, row[CLOCK], ours, seconds)
            if (score := self._scores.pop(step, None)) is not None:
                yield score


def standard_error(path: Path) -> float | None:
    """Return the error of the mean over a validation's problems, from its traces; None where they are not there."""
    scores: dict[int, list[float]] = defaultdict(list)
    with suppress(OSError, ValueError, KeyError, TypeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            for trace in json.loads(line)["traces"]:
                rewards = [reward["score"] * reward["weight"] for reward in trace["rewards"].values() if reward]
                data = trace["task"]["data"]
                scores[data["number"] if "number" in data else data["idx"]].append(sum(rewards))
    means = [fmean(problem_scores) for problem_scores in scores.values()]
    return float(stdev(means) / len(means) ** 0.5) if len(means) > 1 else None


def metrics_of(attempt: Attempt, component: str) -> Path:
    """Return where a component of an attempt writes its metrics: its file is opened to append."""
    return attempt.folder / f"attempt-{attempt.number}.{component}.jsonl"
