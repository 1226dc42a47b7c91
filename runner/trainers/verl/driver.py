"""What rlplan knows of verl 0.9.1: how it is started, what it says, and which checkpoints are whole."""

import json
import math
import re
import statistics
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from planner.logs.consoles import verl_values
from planner.logs.series import choose_score, ours_of
from planner.logs.trainers import WHOLE_STEP, load_trainer
from runner.machine import cpu_cores
from runner.ports.task import Task
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.driver import Attempt, Reading
from runner.trainers.driving import require_chat
from runner.trainers.following import Lines
from runner.trainers.in_own_ray import gpus_here
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import RehearsedDriver
from runner.training.building import open_stream
from runner.training.trial import read_points

TEMPLATE = "actor_rollout_ref.model.custom_chat_template"
_ROWS = 1 << 16  # of the prompts in the order of a trial, after which it begins anew
_VERL = load_trainer("verl")
_LOSS_IS_NO_NUMBER = re.compile(r'"actor/pg_loss": ?null')  # as its file logger writes NaN


class VerlDriver(RehearsedDriver):
    """verl's V1 trainer."""

    def further(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return how many helpers there are, the seed of draws, and whether a score is known."""
        if not (values["embedded"] or task.chat_template or TEMPLATE in values["options"].settings):
            instead = f'take a model that has one, or give one by [trainer.options.settings] "{TEMPLATE}"'
            require_chat(task, self.title, instead)
        return {
            "helpers": helpers(config.machine),
            # A resumed run does not draw the same again.
            "draws": zlib.crc32(f"{config.seed}/{attempt.from_step}".encode()) >> 1,
            "scored": attempt.from_step > 0 and attempt.from_step in self._scored(config, attempt),
        }

    def settings(self, options: Any) -> dict[str, Any]:
        """Return the user's keys, with the logger that rlplan reads beside the user's own."""
        logger = options.settings.get("trainer.logger", "console")
        loggers = [*([logger] if isinstance(logger, str) else logger), "file"]
        return {**options.settings, "trainer.logger": loggers}

    def laid(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the files, with the advantages that are wanted and the order of the prompts."""
        return super().laid(config, task, attempt, values) | {
            "advantage.json": json.dumps(config.recipe.advantage.model_dump()),
            "order.json": json.dumps(open_stream(config, task).take(max(_ROWS, len(task.train)))),
        }

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence["VerlLog"]:
        """Return the file of its file logger, and beside it the answers of its validations."""
        return [VerlLog(config, attempt)]

    def _scored(self, config: TrialConfig, attempt: Attempt) -> set[int]:
        """Return the steps of which an earlier attempt wrote its line, which verl does after it has saved.

        Of a copied checkpoint the trial's points tell, which were copied with it.
        """
        earlier = (Attempt(attempt.folder, number, 0, 0, None) for number in range(1, attempt.number))
        steps = {each.step for one in earlier for source in self.sources(config, one) for each in source.read()}
        points = read_points(attempt.folder.parent)
        return steps | {point.optimizer_step for point in points if point.score is not None}


def helpers(machine: Machine) -> int:
    """Return how many processes ask for responses, and how many score: a quarter of the cores, 2 to 8 on each node."""
    gpus = machine.gpus // machine.nodes
    cores = cpu_cores() * gpus // max(gpus, gpus_here())  # the other GPUs of a node are other trials'
    return machine.nodes * max(2, min(8, cores // 4))


def scores_folder(attempt: Attempt) -> str:
    """Return where the answers of an attempt's validations go, which tell the error of a score."""
    return f"validation-{attempt.number}"


JUDGE = VerlDriver(TrainerSpec.load("verl"))


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
        found = []
        if not self._began and self._path.exists():
            self._began = True
            found.append(Reading(self._from_step))
        if self._waited_for is not None and (error := self._error(self._waited_for)) is not None:
            waited = self._waited_for * self._updates
            found.append(Reading(waited, score_standard_error=error, whole=True))
            self._waited_for = None
        return found + [each for line in self._lines.new() for each in self._meaning(line)]

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
