"""What verl is to do in an attempt, and what it says: the lines of its file logger, the answers of its validations."""

import json
import math
import re
import statistics
import zlib
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from pydantic import Field

from planner.logs.consoles import verl_values
from planner.logs.series import choose_score, ours_of
from planner.logs.trainers import WHOLE_STEP, load_trainer
from planner.tables import Count, Positive
from runner.machine import cpu_cores
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.driver import Attempt, Reading
from runner.trainers.in_own_ray import gpus_here
from runner.trainers.job import Job
from runner.trainers.metric_lines import Lines
from runner.trainers.options import SplitOptions, require_chat
from runner.training.trial import read_points

_VERL = load_trainer("verl")
_LOSS_IS_NO_NUMBER = re.compile(r'"actor/pg_loss": ?null')  # as its file logger writes NaN
TEMPLATE = "actor_rollout_ref.model.custom_chat_template"


class VerlOptions(SplitOptions):
    """[trainer.options] of verl."""

    rollout: Literal["vllm", "sglang", "trtllm"] = Field("vllm", description="whose servers generate")
    strategy: Literal["fsdp", "fsdp2"] = Field("fsdp2", description="how the model is spread over the GPUs")
    tensor_parallel: Count | None = Field(None, description="GPUs of an engine's copy of the model; else by the memory")
    rollout_memory: Positive | None = Field(None, description="share of a GPU that engines take; else by what is there")
    save_steps: Count | None = Field(None, description="updates between saves; else by [trainer] save_seconds")


class VerlJob(Job):
    """What verl is to do."""

    def take_own(self) -> None:
        """Take what verl alone needs."""
        if not (self.embedded or self.chat_template or TEMPLATE in self.options.settings):
            instead = f'take a model that has one, or give one by [trainer.options.settings] "{TEMPLATE}"'
            require_chat(self.task, "verl", instead)
        from_step = self.attempt.from_step
        self.helpers = helpers(self.machine)
        self.draws = zlib.crc32(f"{self.seed}/{from_step}".encode()) >> 1  # a resumed run does not draw the same again
        self.scored = from_step > 0 and from_step in scored_steps(self.config, self.attempt)
        self.corrects = self.objective.truncated_importance is not None and self.objective.against != "sampler"
        self.engine_gpus_per_node = (
            min(self.generators, self.gpus_per_node) if self.asynchronous else self.gpus_per_node
        )


def helpers(machine: Machine) -> int:
    """Return how many processes ask for responses, and how many score: a quarter of the cores, 2 to 8 on each node."""
    gpus = machine.gpus // machine.nodes
    cores = cpu_cores() * gpus // max(gpus, gpus_here())  # the other GPUs of a node are other trials'
    return machine.nodes * max(2, min(8, cores // 4))


class VerlLog:
    """The lines of verl's file logger, one for each batch of rollouts.

    Where the answers of a validation lie beside it, its error is of those.
    """

    def __init__(self, config: TrialConfig, attempt: Attempt) -> None:
        self._path, self._lines = attempt.metrics, Lines(attempt.metrics)
        self._answers = attempt.folder / scores_folder(attempt)
        self._expected = config.validation.problems * config.validation.samples
        self._from_step, self._updates = attempt.from_step, config.recipe.schedule.updates_per_batch
        self._began = False
        self._waited_for: int | None = None  # the step of a score whose answers were not all there when it was read

    def read(self) -> list[Reading]:
        """Return what is new; it opens the file when everything has been started."""
        readings = []
        if not self._began and self._path.exists():
            self._began = True
            readings.append(Reading(self._from_step))
        if self._waited_for is not None and (error := self._error(self._waited_for)) is not None:
            waited = self._waited_for * self._updates
            readings.append(Reading(waited, score_standard_error=error, whole=True))
            self._waited_for = None
        return readings + [reading for line in self._lines.new() for reading in self._meaning(line)]

    def _meaning(self, line: str) -> list[Reading]:
        record = verl_values(line)
        if record is None or (step := record[0]) is None:
            return []
        values = record[1]
        metrics, seconds = ours_of(_VERL, values)
        if _LOSS_IS_NO_NUMBER.search(line):
            metrics["loss"] = math.nan
        score = choose_score(_VERL, dict.fromkeys(values, 1))
        scored = values[score.series[0]] if score is not None and score.kind == "validation" else None
        error = self._error(step) if scored is not None else None
        self._waited_for = step if scored is not None and error is None else None
        length = metrics.pop("response_tokens", None)
        seconds.pop(WHOLE_STEP, None)
        made, whole = step * self._updates, self._waited_for is None
        return [Reading(made, scored, error, length, None, metrics, seconds, whole=whole)]

    def _error(self, step: int) -> float | None:
        """Return the error of a mean over problems, from the answers to each; None where they are not all there."""
        answers: dict[str, list[float]] = defaultdict(list)
        with suppress(OSError, ValueError, KeyError, TypeError):
            for line in (self._answers / f"{step}.jsonl").read_text(encoding="utf-8").splitlines():
                row: Mapping[str, Any] = json.loads(line)
                answers[str(row["uid"]).rsplit("_", 2)[0]].append(float(row["acc"]))
        if sum(map(len, answers.values())) != self._expected or len(answers) < 2:
            return None
        return statistics.stdev(map(statistics.fmean, answers.values())) / math.sqrt(len(answers))


def scores_folder(attempt: Attempt) -> str:
    """Return where the answers of an attempt's validations go, which tell the error of a score."""
    return f"validation-{attempt.number}"


def scored_steps(config: TrialConfig, attempt: Attempt) -> set[int]:
    """Return the steps of which an earlier attempt wrote its line, which verl does after it has saved.

    Of a copied checkpoint the trial's points tell, which were copied with it.
    """
    earlier = (Attempt(attempt.folder, number, 0, 0, None) for number in range(1, attempt.number))
    steps = {reading.step for former in earlier for reading in VerlLog(config, former).read()}
    points = read_points(attempt.folder.parent)
    return steps | {point.optimizer_step for point in points if point.score is not None}
