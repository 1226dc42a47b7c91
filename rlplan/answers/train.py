"""`rlplan train`: what came of a single run, its score, its curve, and where it is stored."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from planner.store import open_store
from rlplan.actions import training
from rlplan.answers.ended import Ended
from rlplan.exits import ExitCode
from rlplan.live.sweep_running import followed
from rlplan.printing.score_chart import chart
from rlplan.reading.show_reading import sheet_of
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_reading import picture
from rlplan.reading.sweep_words import with_error
from rlplan.requests.running import TrainRequest
from rlplan.wording.commands import command, typed_here
from rlplan.wording.draw import Canvas, Invocation, NextStep, Part, next_steps, print_drawn
from rlplan.wording.formats import Format
from rlplan.wording.numbers import hours, steps
from runner.training.trial import METRICS


@dataclass(frozen=True, repr=False)
class Trained(Ended):
    """How far a single run went."""

    def emit(self, format: Format, invocation: Invocation) -> ExitCode:
        """Print the run, as `show` does for a program, or how to go on with one that was stopped."""
        ended, called = self.finished, Invocation((), self.database)
        if ended.interrupted or ended.failed_trials:
            return super().emit(format, invocation)
        with open_store(self.database, read_only=True) as store:
            sweep = picture(store, ended.sweep)
        if format is not Format.TABLE:
            return sheet_of(self.database, sweep.trials[0].name, ended.sweep).emit(format, called)
        print_drawn(lambda canvas: _drawn(sweep, self.database, canvas))
        return ExitCode.DONE


def answer(asked: TrainRequest) -> Trained:
    """Train a model."""
    return Trained(followed(partial(training.train, asked), asked.db), asked.db)


def _drawn(picture: Picture, database: str, canvas: Canvas) -> Iterator[Part]:
    (trial,) = picture.trials
    scored = "no score yet" if trial.last is None else f"score {with_error(trial.last)}"
    yield from canvas.lines(
        f"{picture.workload}, n = {trial.rollouts_per_prompt}, B = {trial.prompts_per_batch}: {scored} after "
        f"{steps(trial.step)} updates, {hours(trial.gpu_hours_spent)} GPU-hours",
        "bold",
    )
    yield from (canvas.line(line, "cyan") for line in chart(trial.scores, canvas))
    if trial.pilot_steps and trial.step < trial.pilot_steps:
        limit = f"its limit of {hours(picture.money.pilot_gpu_hours)} GPU-hours is used up"
        yield from canvas.lines(f"Stopped before update {steps(trial.pilot_steps)}: {limit}; --budget gives more.")
    yield ""
    yield from canvas.lines(f"Stored as {trial.name} of {picture.sweep}.")
    curve = shlex.join(["rlplan", "fit", typed_here(str(Path(picture.config["folder"]) / trial.name / METRICS))])
    steps_after = [
        NextStep(curve, "where its curve goes"),
        NextStep(command("show", trial.name, database), "all of it"),
    ]
    yield from next_steps(steps_after, canvas)
