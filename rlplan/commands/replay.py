"""`rlplan replay`: play a policy over the runs of a table, once or often, and say what came of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from budgets.errors import BudgetError, InputError
from planner.axes import named_configuration
from planner.belief.pool import Pool
from planner.curves.files.tabular import NAME, is_path, table_of
from planner.percent import percent
from planner.policy.policies import open_policy
from planner.replay.play import ChoiceMark, Played, open_chooser, play
from planner.replay.recorded import AROUND, Recorded
from planner.replay.table import ReadTable, read_recorded, recorded_in
from planner.view import Configuration
from rlplan.commands.replay_whole import POLICY, WholeReplay, answer_whole
from rlplan.reading.row_choice import chosen_data
from rlplan.requests.logs import ReplayRequest
from rlplan.wording import screen
from rlplan.wording.answers import Answer, AxisValues, Key, Read, View, columns
from rlplan.wording.numbers import aligned_hours, duration, hours, plain_number, plural
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, Part, Progress, progress_shown

RESULT = ("gpu_hours_spent", "score_at_target", "best_at_target", "regret")


class TraceData(View[ChoiceMark]):
    """What would have been chosen once so much was spent."""

    gpu_hours = Key[float]("of.gpu_hours")
    chosen = Key[AxisValues](lambda trace: chosen_data(trace.of.chosen))
    regret = Key[float]("of.regret")


class RepeatsData(View["Replay"]):
    """What all seeds came to."""

    seeds = Key[Sequence[int]](
        lambda repeats: [repeats.of.request.seed + turn for turn in range(len(repeats.of.played))]
    )
    regrets = Key[Sequence[float]](lambda repeats: [one.regret for one in repeats.of.played])
    mean_regret = Key[float]("of.mean_regret")
    regret_standard_error = Key[float | None]("of.regret_error")
    mean_gpu_hours_spent = Key[float](lambda repeats: fmean(one.gpu_hours_spent for one in repeats.of.played))


@dataclass(frozen=True)
class Replay(Answer):
    """What came of a policy with one seed after another; where one is meant, the first seed's."""

    COLUMNS = columns("""
        policy seed rollouts_per_prompt prompts_per_batch gpu_hours_spent score_at_target best_at_target regret
        decisions
    """)
    TOLD = "notes"

    policy: str
    request: ReplayRequest = field(repr=False)
    target: float = field(repr=False)
    read: ReadTable = field(repr=False)
    budget: float = field(repr=False)  # GPU-hours
    full_cost: float = field(repr=False)
    best: Configuration = field(repr=False)  # at the target
    played: tuple[Played, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)  # what to mind about the table and the replay

    first = property(lambda self: self.played[0])
    chosen = Read[Configuration]("first.chosen", "(rollouts_per_prompt, prompts_per_batch, axes).")
    chosen_axes = Key[AxisValues](
        lambda replay: chosen_data(replay.first.chosen), "with a key for each axis", name="chosen"
    )
    gpu_hours_spent = Key[float]("first.gpu_hours_spent", "What the pilots took.")
    score_at_target = Key[float]("first.score_at_target", "What the chosen configuration scores at the target.")
    best_at_target = Key[float]("first.best_at_target")
    regret = Key[float]("first.regret", "How much the best scores more than what was chosen.")
    trace = Key[Sequence[TraceData]](lambda replay: list(map(TraceData, replay.first.trace)))
    decisions = Key[int]("first.decisions")
    repeats = Key[RepeatsData | None](
        lambda replay: RepeatsData(replay) if len(replay.played) > 1 else None, optional=True
    )

    @property
    def mean_regret(self) -> float:
        """Mean over the seeds."""
        return fmean(one.regret for one in self.played)

    @property
    def regret_error(self) -> float | None:
        """Standard error of that mean; None for a single seed."""
        regrets = [one.regret for one in self.played]
        return stdev(regrets) / math.sqrt(len(regrets)) if len(regrets) > 1 else None

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each seed."""
        columns_of_play = (*RESULT, "policy", "decisions")
        return [
            {name: getattr(one, name) for name in columns_of_play} | one.chosen._asdict() | {"seed": seed}
            for seed, one in enumerate(self.played, start=self.request.seed)
        ]

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw what was chosen, what the best would have been, and the trace or a row for each seed."""
        several = len(self.played) > 1
        yield from _heading(self, canvas)
        yield ""
        if several:
            yield screen.table_of(enumerate(self.played, start=self.request.seed), SEEDS, canvas)
            yield ""
            yield from canvas.lines(
                f"Mean regret {self.mean_regret:.4f} ± {self.regret_error or 0.0:.4f} (standard error) over "
                f"{len(self.played)} seeds; the best is {named_configuration(self.best)} with "
                f"{self.best_at_target:.3f}."
            )
        else:
            yield from canvas.lines(_summary(self, self.first))
            if self.first.trace:
                yield ""
                yield screen.table_of(self.first.trace, MARKS, canvas)
        further = ("each seed's trace", "--format", "json") if several else ("with other seeds too", "--repeat", "5")
        yield from screen.next_steps([invocation.with_flags(*further)], canvas)


def answer(request: ReplayRequest) -> Replay | WholeReplay:
    """Play a policy over the runs of a table, or the whole money; BudgetError when the budget pays for no score."""
    if request.total is not None:
        if request.budget is not None or request.target is not None or request.policy not in ("rlplan", POLICY):
            raise InputError(
                "--total plays pilots and final run of a champion: leave --budget, --target and --policy out, or "
                "--total"
            )
        return answer_whole(request, _table_of(request), request.total)
    if request.budget is None or request.target is None:
        raise InputError("replay needs --total GPU-HOURS for all of a run, or --budget for pilots and --target")
    return _pilots(request, request.target)


def _name_of(request: ReplayRequest) -> Path:
    return Path(request.table) if is_path(request.table) else Path(NAME)


def _table_of(request: ReplayRequest) -> ReadTable:
    name = _name_of(request)
    return read_recorded(name) if is_path(request.table) else recorded_in(table_of(request.table), name)


def _pilots(request: ReplayRequest, target: float) -> Replay:
    """Play pilots alone, with a budget of their own."""
    amount, is_share = _budget_of(request)
    open_policy(request.policy, search=None)  # refuses what is not known, before a large table is read
    read, name = _table_of(request), _name_of(request)
    recorded = read.recorded
    _require_reached(recorded, target, name)
    full_cost = recorded.full_cost(target)
    budget = amount / 100 * full_cost if is_share else amount
    with progress_shown(f"replaying {request.policy}", request.repeat * budget) as progress:
        played = tuple(_play_all(request, recorded, budget, target, progress))
    if all(one.guessed for one in played):
        first = min(float(run.gpu_hours[run.gpu_hours > 0][0]) for run in recorded.runs if run.length > 0)
        raise BudgetError(
            f"{budget:g} GPU-hours pay for no score of any trial that {request.policy} began: the earliest after the "
            f"start of a run in '{name}' comes at {first:g}, and the full grid takes {full_cost:g}; give more "
            "with --budget"
        )
    truth = recorded.truth(target)
    return Replay(
        policy=request.policy,
        request=request,
        target=target,
        read=read,
        budget=budget,
        full_cost=full_cost,
        best=max(truth, key=lambda configuration: truth[configuration]),
        played=played,
        notes=(*read.notes, *_notes(target, recorded, played)),
    )


def _budget_of(request: ReplayRequest) -> tuple[float, bool]:
    """Return the budget as it is typed, such as 50 or 10%, and whether it is a share of the full grid, in percent."""
    text = str(request.budget).strip()
    amount = plain_number(text.removesuffix("%"), "--budget")
    if not (math.isfinite(amount) and amount > 0):
        raise InputError(
            f"--budget {amount:g}: give GPU-hours above 0 for all pilots together, such as 50, or 10% of the full grid"
        )
    return amount, text.endswith("%")


def _require_reached(recorded: Recorded, target: float, name: Path) -> None:
    """Refuse a target beyond what any run has recorded."""
    if recorded.length < (1 - AROUND) * target:
        least = min(run.length for run in recorded.runs)
        raise InputError(
            f"--target {target:g}: the longest run of '{name}' ends at {recorded.length:g} GPU-hours, "
            f"and no run says what comes after; give at most {recorded.length:g}; all runs reach {least:g}"
        )


def _play_all(
    request: ReplayRequest, recorded: Recorded, budget: float, target: float, progress: Progress
) -> Iterator[Played]:
    """Yield the replay of each seed."""
    for turn in range(request.repeat):
        pool = Pool()

        def report(spent: float, before: float = turn * budget) -> None:
            progress(before + spent)

        yield play(
            recorded,
            open_policy(request.policy, search=None, pool=pool),
            budget=budget,
            target=target,
            seed=request.seed + turn,
            workers=request.workers,
            chooser=open_chooser(request.policy, pool),
            trace=turn == 0,
            progress=report,
        )


def _notes(target: float, recorded: Recorded, played: tuple[Played, ...]) -> list[str]:
    notes = []
    short = [run for run in recorded.runs if run.length < target * (1 - 1e-9)]
    if short:
        notes.append(
            f"{len(short)} of {len(recorded.runs)} runs end before the target of {target:g} GPU-hours: these "
            "are worth the mean of their last tenth"
        )
    guessed = sum(one.guessed for one in played)
    if guessed:
        notes.append(f"in {guessed} of {len(played)} replays the budget paid for no score, and the choice is a guess")
    return notes


def _heading(replays: Replay, canvas: Canvas) -> Iterator[Part]:
    """Say what is played over, and at what cost."""
    request, recorded = replays.request, replays.read.recorded
    name = Path(request.table).name if is_path(request.table) else NAME
    axes = f", told apart by n, B, {', '.join(replays.read.axes)}" if replays.read.axes else ""
    yield canvas.line(f"{request.policy} over {name}", "bold")
    yield from canvas.lines(
        f"{len(recorded.runs)} runs of {len(recorded.configurations)} configurations{axes}; all of them once to "
        f"{hours(replays.target)} GPU-hours would take {hours(replays.full_cost)}, and the pilots may take "
        f"{hours(replays.budget)} ({percent(replays.budget / replays.full_cost)}).",
        "dim",
    )


SEEDS: Sequence[Column[tuple[int, Played]]] = (
    Column("seed", lambda seeded: seeded[0]),
    Column("GPU-hours", lambda seeded: aligned_hours(seeded[1].gpu_hours_spent)),
    Column("score", lambda seeded: f"{seeded[1].score_at_target:.3f}"),
    Column("regret", lambda seeded: f"{seeded[1].regret:.3f}"),
    Column("decisions", lambda seeded: f"{seeded[1].decisions:,}"),
    Column("chosen", lambda seeded: named_configuration(seeded[1].chosen), Cells.TEXTS),
)
MARKS: Sequence[Column[ChoiceMark]] = (
    Column("GPU-hours", lambda mark: aligned_hours(mark.gpu_hours)),
    Column("regret", lambda mark: f"{mark.regret:.3f}"),
    Column("would have chosen", lambda mark: named_configuration(mark.chosen), Cells.TEXTS),
)


def _summary(replays: Replay, played: Played) -> str:
    best = "that is the best there is: no regret"
    if played.regret > 0:
        best = (
            f"the best, {named_configuration(replays.best)}, has {played.best_at_target:.3f}: a regret of "
            f"{played.regret:.3f}"
        )
    return (
        f"Chosen: {named_configuration(played.chosen)}. At {hours(replays.target)} GPU-hours it scores "
        f"{played.score_at_target:.3f}; {best}. Spent: {hours(played.gpu_hours_spent)} GPU-hours in "
        f"{played.decisions:,} decisions, {duration(played.wall_hours)} with "
        f"{plural(replays.request.workers, 'worker')}."
    )
