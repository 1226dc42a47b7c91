"""The recorded world: trials answer with what was measured when they were really run."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from budgets.errors import InputError
from budgets.hardware import SECONDS_PER_HOUR
from planner.curves.reading.table import listing
from runner.ports.backend import Point
from runner.ports.simulation import Failures, SimulationChoice
from runner.ports.trial import TrialConfig
from runner.simulation.chance import mixed
from runner.simulation.failures import first_breakdown, seconds_until_lost
from runner.simulation.table import Recording
from runner.simulation.world import Breakdown, require_constant_batch


class RecordedCourse:
    """The life of one trial as it was recorded; between two rows time and counts are taken to pass evenly."""

    save_seconds = 0.0

    def __init__(
        self, recording: Recording, config: TrialConfig, failures: Failures, response_tokens: int, start_up: float
    ) -> None:
        """Take a recording as the life of a trial; `response_tokens` stand in for tokens that are not recorded."""
        self.start_up_seconds = start_up
        self._gpus = config.machine.gpus
        self._measured = {
            step: (score, error)
            for step, score, error in zip(recording.steps, recording.scores, recording.errors, strict=True)
            if score is not None
        }
        self._scored = sorted(self._measured)
        steps, hours = list(recording.steps), list(recording.gpu_hours)
        rollouts = list(recording.rollouts or [step * config.rollouts_per_step for step in steps])
        tokens = list(recording.tokens or [count * response_tokens for count in rollouts])
        if steps[0] > 0:
            steps, hours, rollouts, tokens = [0, *steps], [0.0, *hours], [0, *rollouts], [0, *tokens]
        self._steps, self._hours, self._rollouts, self._tokens = steps, hours, rollouts, tokens
        self._failures = failures
        self._key = mixed(*recording.trial)
        self._breakdown = first_breakdown(failures, self._key, config.rollouts_per_step)

    @property
    def last_step(self) -> int | None:
        """The last step that was recorded."""
        return self._steps[-1]

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

    def breakdown(self, after: int, upto: int) -> Breakdown | None:
        """Return the first update in that range which is to fail."""
        found = self._breakdown
        return found if found is not None and after < found.step <= upto else None

    def seconds_until_lost(self, attempt: int, from_step: int) -> float:
        """Return after how many seconds in this attempt from this step the worker is lost."""
        return seconds_until_lost(self._failures, self._key, attempt, from_step, self._gpus)

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

    def __init__(
        self, recordings: Sequence[Recording], choice: SimulationChoice, start_up_seconds: float = 0.0
    ) -> None:
        """Take runs; start-ups are taken to be in the recorded hours unless they are given."""
        self._choice, self._start_up = choice, start_up_seconds
        self._runs: dict[tuple[int, int, int], Recording] = {}
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
        return RecordedCourse(recording, config, self._choice.failures, self._choice.response_tokens, self._start_up)
