"""What rlplan knows of verl 0.9.1: how it is started, what it says, and which checkpoints are whole."""

import json
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.logs.consoles import verl_values
from planner.logs.series import choose_score, ours_of
from planner.logs.trainers import WHOLE_STEP, load_trainer
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt, Launch, Reading
from runner.trainers.driving import asked_itself, opened_task, options_in, refuse, started
from runner.trainers.following import Lines
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import TableDriver
from runner.trainers.verl.configuration import (
    MODULE,
    VerlOptions,
    files_of,
    keys_of,
    scores_folder,
)
from runner.training.trial import read_points

_VERL = load_trainer("verl")
_LOSS_IS_NO_NUMBER = re.compile(r'"actor/pg_loss": ?null')  # as its file logger writes NaN


class VerlDriver(TableDriver):
    """verl's V1 trainer."""

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that verl cannot run, and a task that cannot be opened."""
        config = self.as_done(config)
        refuse(config, self.title, self.spec.refuses)
        machine, options = config.machine, options_in(config, VerlOptions)
        if machine.device == "cpu":
            raise InputError("verl generates with servers that need GPUs: make a plan for GPUs, or use --trainer trl")
        each_node = machine.gpus // machine.nodes
        if each_node % (options.tensor_parallel or 1):
            raise InputError(
                f"[trainer.options] tensor_parallel = {options.tensor_parallel} on {each_node} GPUs of a node: it must "
                "divide them"
            )
        keys_of(config, opened_task(config), Attempt(Path("/"), 1, 0, 1, None))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start a Ray over all hosts, and on the head start.py in it."""
        config = self.as_done(config)
        task = opened_task(config)
        keys = keys_of(config, task, attempt, scored=attempt.from_step in self._scored(config, attempt))
        environment = {
            "PYTHONPATH": str(attempt.folder.absolute()),  # of every process of that Ray: verl imports MODULE from it
            "VERL_USE_EXTERNAL_MODULES": MODULE,
            "VERL_FILE_LOGGER_PATH": str(attempt.metrics.absolute()),  # which it truncates: one for each attempt
            "HYDRA_FULL_ERROR": "1",
        }
        files = files_of(config, task, attempt, keys) if rank == 0 else {}
        return started(config, attempt, rank, ["start.py"], files, environment, own_ray=True)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence["VerlLog"]:
        """Return the file of its file logger, and beside it the answers of its validations."""
        return [VerlLog(config, attempt)]

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return where its log and checkpoints go, for one who writes them instead."""
        validation = config.validation
        return super().form(config, attempt) | {
            "scores": scores_folder(attempt),
            "validation": {"problems": validation.problems, "samples": validation.samples},
        }

    def rehearse(self, config: TrialConfig) -> Sequence[str]:
        """Have Hydra compose the configuration in verl's own environment, and its validate_config check it."""
        done, attempt = self.as_done(config), Attempt(Path("/"), 1, 0, 1, None)
        task = opened_task(done)
        files = files_of(done, task, attempt, keys_of(done, task, attempt))
        code, said = asked_itself(done, files, "start.py", "check", VERL_USE_EXTERNAL_MODULES=MODULE)
        lines = said.splitlines() or ["no word"]
        if code:
            return [f"verl's environment cannot be asked: {lines[-1]}"]
        return [line.removeprefix("refused: ") for line in lines if line.startswith("refused: ")]

    def _scored(self, config: TrialConfig, attempt: Attempt) -> set[int]:
        """Return the steps of which an earlier attempt wrote its line, which verl does after it has saved.

        Of a copied checkpoint the trial's points tell, which were copied with it.
        """
        earlier = (Attempt(attempt.folder, number, 0, 0, None) for number in range(1, attempt.number))
        said = {each.step for one in earlier for source in self.sources(config, one) for each in source.read()}
        points = read_points(attempt.folder.parent)
        return said | {point.optimizer_step for point in points if point.score is not None}


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
        said = verl_values(line)
        if said is None or (step := said[0]) is None:
            return []
        values = said[1]
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
