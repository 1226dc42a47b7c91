"""What a sweep or a final run came to when it has ended, or how to go on with one that was stopped."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.store import open_store
from planner.store.results import RankedRow
from planner.store.schema import SegmentOutcome
from planner.store.sweeps import plan_named
from rlplan.actions.sweeping import Finished
from rlplan.exits import ExitCode
from rlplan.live.sweep_running import stopped
from rlplan.reading.finals import FinalStanding, failure_lines, final_lines, final_of_sweep, going_on
from rlplan.reading.ranked import ranked_table
from rlplan.reading.recommendation import usual_among, usual_sentence
from rlplan.reading.sweep_data import StatusData
from rlplan.reading.sweep_picture import Picture, sentence
from rlplan.reading.sweep_rows import picture
from rlplan.reading.sweep_words import remains, time_of
from rlplan.wording.answers import RANKED, Answer, columns
from rlplan.wording.command_lines import Format, command
from rlplan.wording.numbers import aligned_hours, hours
from rlplan.wording.screen import ROWS, Canvas, Invocation, Part, next_steps, tell

LEAST_SHARE = 0.001  # of what was spent, that is worth a word
SPENT_AS = {SegmentOutcome.COMMITTED.value: "trained"}  # an outcome's name is the database's, not the reader's


@dataclass(frozen=True, repr=False)
class Ended(Answer):
    """How far a sweep went that was driven here."""

    finished: Finished
    database: str

    @property
    def end(self) -> "FinalEnd | SweepEnd":
        """What it came to."""
        name = self.finished.sweep
        with open_store(self.database, read_only=True) as store:
            sweep, final = picture(store, name), final_of_sweep(store, name)
            with store.read() as session:
                settings = plan_named(session, sweep.plan).config
        if final is not None and final.sweep == name:
            return FinalEnd(final)
        return SweepEnd(sweep, final, usual_among(sweep.answer.ranking if sweep.answer else (), settings))

    @property
    def document(self) -> "FinalEnd | StatusData":
        """What it came to."""
        found: FinalEnd | StatusData = self.end.document
        return found

    def emit(self, format: Format, _: Invocation) -> ExitCode:
        """Print what it found, or how to go on with it."""
        ended = self.finished
        for note in ended.notes:
            tell(note)
        if ended.interrupted:
            tell(stopped(ended.sweep, self.database))
            return ExitCode.INTERRUPTED
        code = self.end.emit(format, Invocation((), self.database))
        if not ended.failed_trials:
            return code
        again = f"what failed is run again with `{command('retry', ended.sweep, self.database)}`"
        some = "one trial has failed" if ended.failed_trials == 1 else f"{ended.failed_trials} trials have failed"
        every = f"every trial of {ended.sweep} that ran has failed, most of them with: {ended.all_failed}"
        tell(f"{some if ended.all_failed is None else every}; {again}")
        return ExitCode.FINISHED_WITH_FAILURES


@dataclass(frozen=True, repr=False)
class SweepEnd(Answer):
    """A sweep when it has ended."""

    COLUMNS = RANKED

    picture: Picture
    final: FinalStanding | None
    usual: tuple[RankedRow, ...] = ()

    @property
    def listed(self) -> Sequence[Any]:
        """Its ranking."""
        return self.picture.answer.ranking if self.picture.answer else ()

    @property
    def document(self) -> StatusData:
        """What `status` prints too."""
        return StatusData(self.picture, self.final)

    def emit(self, format: Format, invocation: Invocation) -> ExitCode:
        """Print it; without an answer exit code 5 where segments hung or failed, else 4: more GPU-hours would do."""
        code = super().emit(format, invocation)
        if self.picture.answer is not None:
            return code
        broken = {SegmentOutcome.FAILED.value, SegmentOutcome.LOST.value} & self.picture.money.by_use.keys()
        return ExitCode.FINISHED_WITH_FAILURES if broken else ExitCode.BUDGET_TOO_SMALL

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw the answer, what it cost, the ranking that it heads, what failed, and how it is run."""
        picture = self.picture
        if picture.answer is None:
            nothing = f"{picture.sweep} ended without a recommendation: no trial has a score after its start."
            yield from canvas.lines(nothing, "bold")
            yield from canvas.lines(_spending(picture))
            yield from failure_lines(picture, canvas)
            again = [("retry", "runs what failed again")] if picture.failures else []
            steps = [*again, ("decisions", "why each trial ended so")]
            yield from next_steps([invocation.step(verb, picture.sweep, does) for verb, does in steps], canvas)
            return
        yield from canvas.lines(sentence(picture.answer), "bold")
        for choice in self.usual:
            yield from canvas.lines(usual_sentence(choice, picture.answer.ranking[0]))
        yield from canvas.lines(_spending(picture))
        yield ""
        yield ranked_table(picture.answer.ranking[:ROWS], canvas)
        if (hidden := len(picture.answer.ranking) - ROWS) > 0:
            yield from canvas.lines(f"{hidden:,} more rows: `{invocation.command('rank', picture.sweep)}`", "dim")
        yield from failure_lines(picture, canvas)
        yield from next_steps(
            [
                invocation.step("recommend", picture.sweep, "how sure this is"),
                invocation.step("launch", picture.sweep, "runs it in full"),
            ],
            canvas,
        )


@dataclass(frozen=True, repr=False)
class FinalEnd(Answer):
    """A final run when it has ended."""

    COLUMNS = columns("step gpu_hours score")
    ROWS = "final.scores"

    final: FinalStanding

    def emit(self, format: Format, invocation: Invocation) -> ExitCode:
        """Print it; exit code 5 where a warning stands."""
        super().emit(format, invocation)
        if not self.final.goes_wrong:
            return ExitCode.DONE
        tell(f"{self.final.sweep} ended with a warning: {'; '.join(warning.rule for warning in self.final.warnings)}")
        return ExitCode.FINISHED_WITH_FAILURES

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw how it stands against its promise."""
        steps = [
            invocation.step("status", self.final.sweep, "its scores beside the forecast"),
            invocation.step("report report.html", self.final.sweep, "all of it as one page"),
            *going_on(self.final, invocation),
        ]
        yield from final_lines(self.final, canvas)
        yield from next_steps(steps, canvas)


def _spending(picture: Picture) -> str:
    money = picture.money
    seen = LEAST_SHARE * money.spent
    uses = [(SPENT_AS.get(kind, kind), gpu_hours) for kind, gpu_hours in money.by_use.items() if gpu_hours > seen]
    went = ", ".join(f"{kind} {aligned_hours(gpu_hours)}" for kind, gpu_hours in uses)
    return (
        f"The pilots spent {aligned_hours(money.spent)} of {hours(money.pilot_gpu_hours)} GPU-hours"
        f"{f' ({went})' if went else ''}, {remains(money)}; {time_of(picture)}."
    )
