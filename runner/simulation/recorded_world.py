"""The recorded world: trials answer with what was measured when they were really run.

It is read from a table of `run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours, score`, a row a point. A
column `step` says after which update a row was taken; without it a run's rows are one update apart, from 0 when the
first has spent nothing and from 1 otherwise. `rollouts`, `tokens` and `score_standard_error` are taken over.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from budgets.errors import InputError
from budgets.hardware import SECONDS_PER_HOUR
from planner.curves.reading import Table, read_table
from planner.curves.reading.table import Rows, listing
from planner.replaying.reading import cell_of, in_order, numbers, require, require_columns, runs_of, where_there, whole
from runner.ports.backend import Point
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import TrialConfig
from runner.simulation.chance import mixed
from runner.simulation.world import Course, require_constant_batch

COUNTS: Final = ("step", "rollouts", "tokens")


@dataclass(frozen=True)
class Recording:
    """One run: lists of equal length, in the order of its steps."""

    run: str
    rollouts_per_prompt: int
    prompts_per_batch: int
    seed: int
    steps: Sequence[int]
    gpu_hours: Sequence[float]
    scores: Sequence[float | None]
    errors: Sequence[float | None]  # standard ones, of the scores
    rollouts: Sequence[int] | None
    tokens: Sequence[int] | None

    @property
    def trial(self) -> tuple[int, int, int]:
        """(n, B, seed)."""
        return self.rollouts_per_prompt, self.prompts_per_batch, self.seed


def read_recordings(path: Path) -> list[Recording]:
    """Return the runs of a CSV in the order in which they begin; InputError names the row that is not allowed."""
    table, *_ = read_table(path)
    require_columns(table, path, "step, rollouts, tokens and score_standard_error")
    return [_recording(path, table, run, rows) for run, rows in runs_of(table)]


def _recording(path: Path, table: Table, run: str, rows: Rows) -> Recording:
    place = f"'{path}', run '{run}'"
    hours = numbers(table, "gpu_hours", rows, place)
    require(hours >= 0, rows, f"{place}: gpu_hours is below 0")
    n, B, seed = cell_of(table, path, run, rows)
    rows = in_order(rows, hours, place)
    hours = table.columns["gpu_hours"][rows]
    counts = {name: whole(table, name, rows, place) for name in COUNTS if name in table.columns or name in table.text}
    steps = counts.get("step", np.arange(rows.size) + int(hours[0] > 0))
    require(np.append(True, np.diff(steps) > 0), rows, f"{place}: step does not grow")
    return Recording(
        run,
        n,
        B,
        seed,
        steps.astype(int).tolist(),
        hours.tolist(),
        where_there(table, "score", rows, place),
        where_there(table, "score_standard_error", rows, place),
        counts["rollouts"].astype(int).tolist() if "rollouts" in counts else None,
        counts["tokens"].astype(int).tolist() if "tokens" in counts else None,
    )


class RecordedCourse(Course):
    """The life of one trial as it was recorded; between two rows time and counts are taken to pass evenly."""

    start_up_seconds = 0.0  # it is taken to be in the recorded hours

    def __init__(self, recording: Recording, config: TrialConfig, choice: SimulationChoice) -> None:
        """Take a recording as the life of a trial; a stated length stands in for tokens that are not recorded."""
        super().__init__(config, choice.failures, mixed(*recording.trial))
        self._measured = {
            step: (score, error)
            for step, score, error in zip(recording.steps, recording.scores, recording.errors, strict=True)
            if score is not None
        }
        self._scored = sorted(self._measured)
        steps, hours = list(recording.steps), list(recording.gpu_hours)
        rollouts = list(recording.rollouts or [step * config.rollouts_per_step for step in steps])
        tokens = list(recording.tokens or [count * choice.response_tokens for count in rollouts])
        if steps[0] > 0:
            steps, hours, rollouts, tokens = [0, *steps], [0.0, *hours], [0, *rollouts], [0, *tokens]
        self._steps, self._hours, self._rollouts, self._tokens = steps, hours, rollouts, tokens
        self.last_step = steps[-1]

    def seconds(self, step: int) -> float:
        """Return the trial's seconds when a step and its validation are over."""
        return self._at(step, self._hours) * SECONDS_PER_HOUR / self._gpus

    def step_at(self, seconds: float) -> int:
        """Return the first step that is over at or after so many seconds, the last one at most."""
        return min(self._steps[-1], bisect_left(range(self._steps[-1] + 1), seconds, key=self.seconds))

    def scored_steps(self, after: int, upto: int) -> Sequence[int]:
        """Return the steps in (after, upto] that have a score."""
        return self._scored[bisect_right(self._scored, after) : bisect_right(self._scored, upto)]

    def point(self, step: int) -> Point:
        """Return what was recorded of a step, or what lies between the rows around it."""
        hours = self._at(step, self._hours)
        score, error = self._measured.get(step, (None, None))
        return Point(
            step,
            round(self._at(step, self._rollouts)),
            round(self._at(step, self._tokens)),
            hours * SECONDS_PER_HOUR / self._gpus,
            hours,
            score,
            error,
        )

    def _at(self, step: int, values: Sequence[float]) -> float:
        row = bisect_left(self._steps, step)
        if row == len(self._steps):
            raise InputError(f"step {step} was not recorded: the run ends at step {self._steps[-1]}")
        if self._steps[row] == step:
            return values[row]
        before, after = self._steps[row - 1], self._steps[row]
        share = (step - before) / (after - before)
        return values[row - 1] + share * (values[row] - values[row - 1])


class RecordedWorld:
    """Trials of a table of runs, found by (n, B, seed)."""

    def __init__(self, recordings: Sequence[Recording], choice: SimulationChoice) -> None:
        """Take runs, no two of one configuration and seed."""
        self._choice = choice
        for before, after in pairwise(sorted(recordings, key=lambda recording: recording.trial)):
            if before.trial == after.trial:
                n, B, seed = before.trial
                raise InputError(
                    f"runs '{before.run}' and '{after.run}' are both of n = {n}, B = {B}, seed = {seed}: keep the runs "
                    "of one configuration in the table, or give them different seeds"
                )
        self._runs = {recording.trial: recording for recording in recordings}

    def course(self, config: TrialConfig) -> RecordedCourse:
        """Return the recorded life of a trial; InputError names the nearest that were recorded."""
        require_constant_batch(config)
        trial = config.rollouts_per_prompt, config.prompts_per_batch, config.seed
        recording = self._runs.get(trial)
        if recording is None:
            n, B, seed = trial
            seeds = [str(known) for (*cell, known) in sorted(self._runs) if cell == [n, B]]
            cells = listing(sorted({f"{known[0]} × {known[1]}" for known in self._runs}))
            there = f"of n × B = {n} × {B} the seeds are {listing(seeds)}" if seeds else f"recorded n × B are {cells}"
            raise InputError(f"no run of n = {n}, B = {B}, seed = {seed} in '{self._choice.table}': {there}")
        return RecordedCourse(recording, config, self._choice)
