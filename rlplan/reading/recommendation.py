"""What `rlplan recommend` says, callable from Python: the answer for a stored sweep, and how to run it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, InputError, NotFoundError
from planner.axes import named_configuration
from planner.belief.draws import JointDraws
from planner.config.schema import named_sizes
from planner.percent import percent
from planner.policy.champion import champion_of
from planner.recommend.answer import FinalAnswer, RunnerUp, answer_data, choice_data, restored
from planner.recommend.cautions import Caution
from planner.recommend.choice import Choice
from planner.recommend.facts import ConfigurationFacts
from planner.store import Store, open_store
from planner.store.finals import ENDED, finals_of, pilots_of
from planner.store.results import RankedRow
from planner.store.schema import Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import sweep_named
from planner.view import Configuration, TrialState
from rlplan.reading.launch_line import Final, Launch, Pilot, launch
from rlplan.reading.sweep_picture import Source, StoredAnswer
from rlplan.reading.sweep_rows import stored_answer
from rlplan.wording.answers import Answer, Key, Read, View, columns
from rlplan.wording.command_lines import DEFAULT_DATABASE, typed_here
from rlplan.wording.numbers import hours, interval, moment, probability, steps
from runner.sweep.conclusions import answer_of, stored_board
from runner.sweep.home import AstrayError, home_of
from runner.sweep.plan_rows import configuration_of
from runner.sweep.state import SweepState

Ranked = TypeVar("Ranked", Choice, RankedRow)


def usual_among(ranked: Iterable[Ranked], config: Mapping[str, Any]) -> tuple[Ranked, ...]:
    """Return each usual choice of a plan's settings that can be run, without further axes where it is there so.

    Beside a champion it is the plan's row nearest to what recipes have.
    """
    baseline = config.get("proposal", {}).get("baseline")
    sizes = named_sizes(baseline) if baseline else ()
    if (champion := champion_of(config, 0.0)) is not None:
        sizes = tuple(dict.fromkeys((n, B) for n, B, _ in champion.usual))
    by_sizes: dict[tuple[int, int], Ranked] = {}
    for choice in sorted(ranked, key=lambda row: len(row.axes)):
        if choice.expected_score is not None:
            by_sizes.setdefault((choice.rollouts_per_prompt, choice.prompts_per_batch), choice)
    return tuple(by_sizes[size] for size in sizes if size in by_sizes)


def usual_sentence(usual: Choice | RankedRow, chosen: Choice | RankedRow) -> str:
    """Say where it should end with the same GPU-hours."""
    text = f"The usual choice, {named_configuration(_of(usual))}, is"
    if _of(usual) == _of(chosen):
        return f"{text} the one to run."
    return f"{text} expected at {interval(usual.expected_score, usual.score_low, usual.score_high)}."


def _of(row: Choice | RankedRow) -> Configuration:
    return Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)


Data = Mapping[str, Any]


def _of_answer(name: str) -> Callable[[Any], Any]:
    """Return what reads a part of an answer as the planner has it, also in the database."""
    return lambda row: row.data[name]


class LaunchData(View[Launch]):
    """How the final run is started."""

    command = Key[str | None]("of.line")
    arguments = Key[Sequence[str] | None]("of.command")
    gpu_hours = Key[float]("of.gpu_hours", "still to be paid")
    continues = Key[Pilot | None]("of.continues")
    note = Key[str]("of.note")
    gpus = Key[int | None](lambda answer: answer.of.machine and answer.of.machine.gpus, optional=True)
    nodes = Key[int | None](lambda answer: answer.of.machine and answer.of.machine.nodes, optional=True)


@dataclass(frozen=True, repr=False)
class Recommended(Answer):
    """What is recommended: what the sweep has stored, unless another is asked for or none can be read.

    `print` shows it as `rlplan recommend --explain` does, and `found` is all of it, typed.
    """

    DRAWN = "rlplan.commands.recommend"
    COLUMNS = columns("""
        rank rollouts_per_prompt prompts_per_batch update_steps learning_rate recipe gpu_hours expected_score
        score_low score_high probability_best probability_within_002 expected_regret collapse_risk status
        gpu_hours_spent reached_gpu_hours seeds_seen
    """)

    sweep: str
    status: SweepStatus
    policy: str
    pilot_gpu_hours: float
    spent_gpu_hours: float
    answer: FinalAnswer = field(repr=False)
    launch: Launch = field(repr=False)
    kept: StoredAnswer | None = field(repr=False)  # that it is; None where it was worked out now
    usual: tuple[Choice, ...] = field(default=(), repr=False)  # the plan's usual choices, as far as they can be run
    asked_for: bool = field(default=False, repr=False)  # a final run other than the sweep's own
    database: str = field(default=DEFAULT_DATABASE, repr=False)  # as a command names it
    final: str | None = field(default=None, repr=False)  # the one that there is: no other is launched

    found = Read[FinalAnswer]("answer", "The answer itself, with other budgets and the frontier.")
    best = Read[Choice](
        "answer.chosen", "What to run: n, B, update steps and learning rate, with what is expected of it."
    )
    sentence = Read[str]("answer.what", "What to run and what it is expected to score, in one sentence.")
    certainty = Read[str]("answer.how_sure", "How sure that is, in one sentence.")
    runner_up = Read[RunnerUp | None]("answer.runner_up", "The next best, and how likely it is to end higher.")
    equivalent = Read[tuple[Choice, ...]]("answer.equivalent", "What the evidence does not tell from the best.")
    cautions = Read[tuple[Caution, ...]]("answer.cautions", "What to mind.")
    command = Read[str | None]("launch.line", "The line that runs it; None where there is none.")

    source = Key[Source](lambda answer: Source.NOW if answer.kept is None else Source.STORED)
    made_at = Key[datetime | None](lambda answer: answer.kept and answer.kept.made_at)
    so_far = Key[bool](lambda answer: answer.kept is not None and answer.kept.so_far)
    target_gpu_hours = Key[float]("answer.target_gpu_hours", "GPU-hours of the final run that it is for.")
    recommendation = Key[Data](_of_answer("recommendation"))
    sentences = Key[Sequence[str]](_of_answer("sentences"))
    why = Key[str](_of_answer("why"))
    valued = Key[str](_of_answer("valued"))
    rival = Key[Data | None](_of_answer("runner_up"), name="runner_up")
    level = Key[Sequence[Data]](_of_answer("level"), "any of these will do")
    alike = Key[Sequence[Data]](
        _of_answer("equivalent"), "what the evidence does not tell from the best", name="equivalent"
    )
    beside = Key[Sequence[Data]](
        lambda answer: list(map(choice_data, answer.usual)), "the usual choices, with the same GPU-hours", name="usual"
    )
    budgets = Key[Sequence[Data]](_of_answer("budgets"))
    frontier = Key[Sequence[Data]](_of_answer("frontier"))
    enough = Key[Data | None](_of_answer("enough"), "the cheapest within 0.02, where less does")
    warnings = Key[Sequence[Caution]](_of_answer("warnings"))
    ranking = Key[Sequence[Data]](_of_answer("ranking"))
    left_out = Key[Sequence[Data]](_of_answer("left_out"), "what cannot be run")
    seed_sd = Key[float](_of_answer("seed_sd"))
    draws = Key[int](_of_answer("draws"))
    champion = Key[Data | None](
        lambda answer: answer.data.get("champion"),
        "whose run it was from the start, whether another goes on, why",
        optional=True,
    )
    started = Key[LaunchData](lambda answer: LaunchData(answer.launch), name="launch")

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The answer as the planner writes it."""
        return answer_data(self.answer)

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each configuration that can be run, the chosen one first."""
        return [asdict(choice) | {"rank": rank} for rank, choice in enumerate(self.answer.ranked, start=1)]

    @property
    def summary(self) -> str:
        """What to run, and how sure that is."""
        return f"{self.sentence} {self.certainty}"

    def __repr__(self) -> str:
        best = self.best
        return (
            f"<Answer n = {best.rollouts_per_prompt}, B = {best.prompts_per_batch}, M={steps(best.update_steps)}: "
            f"{best.expected_score:.3f} ({best.score_low:.3f}–{best.score_high:.3f}), "
            f"P(best) {probability(best.probability_best)}>"
        )

    @property
    def origin(self) -> str:
        """Of when it is, in words."""
        if self.kept is not None:
            state = "so far, as of" if self.kept.so_far else "stored at its end,"
            return f"the answer {state} {moment(self.kept.made_at)}"
        why = "another final run than the sweep's own" if self.asked_for else "no answer is stored that can be read"
        return f"worked out now: {why}"


def recommended(
    database: str, sweep: str | None, *, budget: float | None = None, target: float | None = None
) -> Recommended:
    """Return the answer of a sweep, by default the newest, as it has stored it last; of a final run its sweep's.

    `target` asks for another final run; `budget` for what a whole budget leaves to it after what the pilots spent.
    """
    with open_store(database, read_only=True) as store, store.read() as session:
        origin = stored_in(session, store.location, pilots_of(session, sweep_named(session, sweep)).name)
        finals = [
            (row, session.scalars(select(Trial).where(Trial.sweep_id == row.id)).one())
            for _, row in finals_of(session, origin.sweep.id)
        ]
    recommendation = recommended_for(origin, _final(origin.board, budget, target))
    chosen = recommendation.best.configuration
    runs = [row.name for row, trial in finals if row.status not in ENDED or configuration_of(trial) == chosen]
    return replace(recommendation, final=runs[-1] if runs and not recommendation.asked_for else None)


@dataclass(frozen=True, slots=True)
class Stored:
    """What an answer is worked out from, as the rows have it."""

    database: str  # where it is stored, without a password
    sweep: Sweep
    plan: Plan
    board: SweepState
    astray: str | None  # why the sweep's folder is not there, or not its own
    answer: StoredAnswer | None


def stored(store: Store, sweep: str | None) -> Stored:
    """Read a sweep, by default the newest."""
    with store.read() as session:
        return stored_in(session, store.location, sweep)


def stored_in(session: Session, location: str, sweep: str | None) -> Stored:
    """Read a sweep of the database at a location, in a transaction that is open already."""
    row = sweep_named(session, sweep)
    plan = session.scalars(select(Plan).where(Plan.id == row.plan_id)).one()
    folder, astray = None, None
    try:
        folder = home_of(row, location).folder
    except AstrayError as error:
        astray = error.fact
    try:
        board = stored_board(session, row.name, folder)
    except ValidationError as error:
        mistake = error.errors()[0]
        raise InputError(
            f"the settings of {row.name} are none that this version of rlplan can read "
            f"({'.'.join(map(str, mistake['loc']))}: {mistake['msg']}): ask the version that it was run with"
        ) from error
    return Stored(location, row, plan, board, astray, stored_answer(session, row.id))


def recommended_for(
    origin: Stored, target_gpu_hours: float | None = None, joint: JointDraws | None = None
) -> Recommended:
    """Return the answer that is stored, or that of another final run; who has fitted the curves gives the `joint`."""
    board = origin.board
    saved = origin.answer if target_gpu_hours is None else None
    answer = None if saved is None else restored(saved.details, left_out_of(saved.ranking))
    if not board.trials:
        raise NotFoundError(
            f"{origin.sweep.name} has no pilots, and so nothing is recommended: `rlplan status {origin.sweep.name}` "
            "shows its final run"
        )
    if answer is None:
        saved, answer = None, answer_of(board, target_gpu_hours, joint)
    chosen = answer.chosen
    ended = saved is not None and not saved.so_far and origin.sweep.status in ENDED
    final = Final(chosen.configuration, chosen.update_steps, chosen.gpu_hours, by_name=not ended)
    return Recommended(
        sweep=origin.sweep.name,
        status=origin.sweep.status,
        policy=origin.sweep.policy,
        pilot_gpu_hours=board.spec.pilot_gpu_hours,
        spent_gpu_hours=board.ledger.charged,
        answer=answer,
        launch=launch(board, origin.sweep.name, origin.database, final, origin.astray),
        kept=saved,
        usual=usual_among(answer.ranked, origin.plan.config),
        asked_for=target_gpu_hours is not None,
        database=typed_here(origin.database),
    )


def left_out_of(ranking: Iterable[RankedRow]) -> dict[Configuration, ConfigurationFacts]:
    """Return the facts of what a stored ranking lists without a score, since it cannot be run."""
    return {
        Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes): ConfigurationFacts(
            learning_rate=row.learning_rate,
            recipe=row.recipe,
            gpu_hours_per_step=row.gpu_hours_to_target / max(1, row.update_steps),
            status=row.status,
            gpu_hours_spent=row.gpu_hours_spent,
            failed=row.status == TrialState.FAILED,
        )
        for row in ranking
        if row.expected_score is None
    }


def _final(board: SweepState, budget: float | None, target: float | None) -> float | None:
    """Return the GPU-hours of the final run that is asked for, None for the plan's."""
    if budget is None:
        return target
    if target is not None:
        raise InputError(
            "{budget} and {target} are both given: {target} is the final run alone, {budget} is all GPU-hours with the "
            "pilots'; leave one of them out",
            budget=None,
            target=None,
        )
    left = budget - board.ledger.charged
    if left <= 0:
        raise BudgetError(
            f"a budget of {budget:.4g} GPU-hours leaves nothing for a final run: the pilots have spent "
            f"{board.ledger.charged:.4g}"
        )
    return left


def outlook(answer: FinalAnswer) -> list[str]:
    """Say whether another budget changes the choice, and which part of this one is nearly as good."""
    lines, enough = [answer.at_other_budgets] if answer.succession is None else [], answer.enough
    if enough is not None:
        lines.append(
            f"A final run of {hours(enough.gpu_hours)} GPU-hours "
            f"({percent(enough.gpu_hours / answer.target_gpu_hours)}) with n = {enough.rollouts_per_prompt}, B = "
            f"{enough.prompts_per_batch} should already reach {enough.expected_score:.2f}, at most 0.02 less"
        )
    return lines
