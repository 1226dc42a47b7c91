"""`rlplan check`: what a script would launch, what is wrong with it, and what would help."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.metrics import EQUIVALENCE_MARGIN, Interval
from planner.scripts.changes import Improvement
from planner.scripts.verdict import Flag, Verdict
from rlplan.actions.script_check import CheckedScript, PartsData, check_script
from rlplan.actions.script_copy import Fixed
from rlplan.commands.check_screen import drawn_check, rows_of
from rlplan.exits import ExitCode
from rlplan.requests.plan import CheckRequest
from rlplan.wording.answers import Answer, Key, View, columns
from rlplan.wording.assumptions import Assumption
from rlplan.wording.screen import Canvas, Invocation, Part


def _of(values: tuple[float, float, float] | None) -> Interval | None:
    return None if values is None else Interval(*values)


class ValidationData(View[Verdict]):
    """What validations cost and see."""

    share_of_time = Key[float | None]("of.validation_share")
    visible_difference = Key[float | None]("of.visible_difference")
    sees = Key[bool | None](
        lambda validation: (
            None if (difference := validation.of.visible_difference) is None else difference <= EQUIVALENCE_MARGIN
        ),
        f"whether it sees a difference of {EQUIVALENCE_MARGIN:g}",
    )


@dataclass(frozen=True)
class CheckpointsData:
    """What checkpoints take on the disk."""

    kept: int
    bytes: float


@dataclass(frozen=True)
class GainData:
    """A gain in the score."""

    median: float
    error: float


class ChangeData(View[tuple[Improvement, Mapping[str, str]]]):
    """A change that would help, with the script's key of it."""

    name = Key[str](lambda change: change.of[0].name)
    key = Key[str | None](lambda change: change.of[1].get(change.of[0].name))
    before = Key[Any](lambda change: change.of[0].before)
    after = Key[Any](lambda change: change.of[0].after)
    clears = Key[Sequence[str]](lambda change: change.of[0].cleared, "red flags that are gone with it")
    score_gain = Key[GainData | None](lambda change: change.of[0].score_gain and GainData(*change.of[0].score_gain))
    gpu_hours_saved = Key[float](lambda change: change.of[0].saved, "as a share of those of a step")
    seconds_per_step = Key[Interval](lambda change: _of(change.of[0].verdict.step_seconds))
    cut_off = Key[float](lambda change: change.of[0].verdict.cut_off)
    dead_groups = Key[float](lambda change: change.of[0].verdict.dead_groups)


@dataclass(frozen=True, repr=False)
class Check(Answer):
    """What a script would launch, what is wrong with it, and what would help."""

    COLUMNS = columns("what value")

    found: CheckedScript = field(repr=False)

    files = Key[Sequence[str]]("found.files")
    trainer = Key[str | None]("found.facts.trainer")
    model = Key[str]("found.launch.workload.model.name")
    gpu = Key[str]("found.launch.hardware.gpu.name")
    gpus = Key[int]("found.launch.hardware.gpus_per_trial")
    rollouts_per_prompt = Key[int]("found.launch.rollouts_per_prompt")
    prompts_per_batch = Key[int]("found.launch.prompts_per_batch")
    red_flags = Key[Sequence[Flag]](lambda check: [flag for flag in check.verdict.flags if flag.asks is None])
    likely_flags = Key[Sequence[Flag]](
        lambda check: [flag for flag in check.verdict.flags if flag.asks is not None], "flags that rest on a guess"
    )
    fits = Key[bool]("verdict.memory.fits")
    memory = Key[PartsData](lambda check: PartsData(check.verdict.memory))
    steps = Key[int | None]("found.launch.steps")
    seconds_per_step = Key[Interval](lambda check: _of(check.verdict.step_seconds))
    phases = Key[Mapping[str, float]](lambda check: check.phase_seconds, "seconds of a batch")
    hours = Key[Interval | None](lambda check: _of(check.verdict.hours))
    gpu_hours = Key[Interval | None](lambda check: _of(check.verdict.gpu_hours))
    dollars = Key[float | None]("verdict.dollars")
    mean_response_tokens = Key[float]("found.launch.workload.responses.mean")
    response_tokens = Key[int]("found.launch.workload.responses.cap")
    cut_off = Key[float]("verdict.cut_off", "share of the responses")
    dead_groups = Key[float]("verdict.dead_groups", "share of the groups whose rewards are all equal")
    learning_rate = Key[float | None]("found.launch.learning_rate")
    rule_learning_rate = Key[float]("found.launch.rule_rate")
    updates_per_batch = Key[int]("found.launch.updates")
    staleness = Key[float]("verdict.staleness", "updates that a rollout is old at most")
    epochs = Key[float | None]("verdict.epochs")
    validation = Key[ValidationData](lambda check: ValidationData(check.verdict))
    checkpoints = Key[CheckpointsData | None](
        lambda check: (kept := check.verdict.checkpoints) and CheckpointsData(kept[0], kept[0] * kept[1])
    )
    expected_score = Key[Interval | None]("found.checked.score")
    budget_steps = Key[int | None]("found.checked.budget_steps", "that a budget buys")
    changes = Key[Sequence[ChangeData]](
        lambda check: [ChangeData((one, check.found.facts.keys)) for one in check.found.checked.improvements]
    )
    usual_ahead = Key[GainData | None](
        lambda check: (gain := check.found.checked.usual_gain) and GainData(*gain),
        "by how much studies expect more of the usual n and B at the rule's rate, where they are sure of it",
    )
    fork = Key[str | None](
        lambda check: None if (facts := check.found.facts).maker == facts.trainer else facts.maker, "of that trainer"
    )
    turns = Key[int | None](lambda check: check.found.facts.values.get("turns"), "of a rollout at most")
    turn_tokens = Key[int | None](
        lambda check: check.found.facts.values.get("turn_tokens"), "that a turn writes at most"
    )
    tool_tokens = Key[int | None](lambda check: check.found.facts.values.get("tool_tokens"), "that a tool answers")
    keys = Key[Mapping[str, str]](lambda check: dict(check.found.facts.keys), "how the script calls each value")
    assumed = Key[Mapping[str, Any]](lambda check: dict(check.found.facts.assumed))
    unresolved = Key[Sequence[str]](lambda check: list(check.found.facts.unresolved))
    guessed = Key[Mapping[str, str]](
        lambda check: {flag: text for text, flag in check.found.guessed}, "what nobody says, by the flag that would"
    )
    assumptions = Key[Sequence[Assumption]]("found.assumptions")
    fixed = Key[Fixed | None]("found.fixed", "the copies that --fix wrote")

    @property
    def code(self) -> ExitCode:
        """That of warnings where something should stop the launch."""
        return ExitCode.FINISHED_WITH_FAILURES if self.verdict.stops else ExitCode.DONE

    @property
    def listed(self) -> Sequence[Any]:
        """The lines of the screen."""
        return [dict(zip(self.COLUMNS, row, strict=True)) for row in rows_of(self.found)]

    @property
    def verdict(self) -> Verdict:
        """What it comes to."""
        return self.found.checked.verdict

    @property
    def phase_seconds(self) -> dict[str, float]:
        """Seconds of each phase of a batch."""
        times = self.found.launch.traits.updates_per_batch
        return {phase.phase: phase.median * times for phase in self.verdict.price.phases}

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw red flags, the run in nine lines, and what would help most."""
        return drawn_check(self.found, invocation, canvas)


def answer(request: CheckRequest) -> Check:
    """Judge a script."""
    return Check(check_script(request))
