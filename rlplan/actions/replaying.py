"""What `rlplan replay` does, callable from Python: read a table of runs and play a policy over it, once or often."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from budgets.errors import BudgetError, InputError
from planner.experience.experience import Experience
from planner.experience.teaching import TransferPriors
from planner.pooling.pool import Pool
from planner.replaying.choosing import open_chooser
from planner.replaying.play import Played, play
from planner.replaying.reading import ReadTable, read_recorded
from planner.replaying.recorded import AROUND, Recorded
from planner.sweeping.policies import open_policy
from planner.view import Configuration
from rlplan.actions.learning import learnt_from, require_learner
from rlplan.wording.terminal import Progress, progress_shown
from rlplan.wording.typed_numbers import plain_number


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is asked of `rlplan replay`."""

    table: Path
    budget: float  # GPU-hours, or a share of what the full grid costs
    target: float
    policy: str = "rlplan"
    seed: int = 0
    workers: int = 1
    repeat: int = 1
    budget_is_share: bool = False
    learn_from: tuple[str, ...] = ()  # files, or none

    def __post_init__(self) -> None:
        for flag, value, remedy in (
            ("--budget", self.budget, "GPU-hours above 0 for all pilots together, such as 50, or 10% of the full grid"),
            ("--target", self.target, "GPU-hours above 0 of the final run, such as 100"),
        ):
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{flag} {value:g}: give {remedy}")
        for flag, number, least in (
            ("--seed", self.seed, 0),
            ("--workers", self.workers, 1),
            ("--repeat", self.repeat, 1),
        ):
            if number < least:
                raise InputError(f"{flag} {number}: it must be at least {least}")


def budget_of(text: str) -> tuple[float, bool]:
    """Return the amount of a budget such as 50, or 10% of the full grid, and whether it is a share."""
    is_share = text.strip().endswith("%")
    amount = plain_number(text.strip().removesuffix("%"), "--budget")
    return amount / 100 if is_share else amount, is_share


@dataclass(frozen=True, slots=True)
class Replays:
    """What came of a policy with one seed after another."""

    request: ReplayRequest
    read: ReadTable = field(repr=False)
    budget: float  # GPU-hours
    full_cost: float
    best: Configuration
    played: tuple[Played, ...] = field(repr=False)
    notes: tuple[str, ...]
    learnt: tuple[Experience, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)  # of sources, at the end of the first seed's replay

    @property
    def mean_regret(self) -> float:
        """Mean over the seeds."""
        return math.fsum(one.regret for one in self.played) / len(self.played)

    @property
    def regret_error(self) -> float | None:
        """Standard error of that mean; None for a single seed."""
        count = len(self.played)
        if count < 2:
            return None
        squares = math.fsum((one.regret - self.mean_regret) ** 2 for one in self.played)
        return math.sqrt(squares / (count - 1) / count)


def replay_table(request: ReplayRequest, read: ReadTable | None = None) -> Replays:
    """Play a policy over the runs of a table, of one that was read already if it is given.

    BudgetError when the budget pays for no score.
    """
    open_policy(request.policy, search=None)  # refuses what is not known, before a large table is read
    read = read or read_recorded(request.table)
    recorded = read.recorded
    require_learner(request.policy, request.learn_from)
    learnt = learnt_from(request.learn_from, apart_from=request.table)
    teacher = TransferPriors(learnt, read.about) if learnt else None
    _require_reached(request, recorded)
    full_cost = recorded.full_cost(request.target)
    budget = request.budget * full_cost if request.budget_is_share else request.budget
    with progress_shown(f"replaying {request.policy}", request.repeat * budget) as progress:
        replays = tuple(_play_all(request, recorded, budget, teacher, progress))
    played = tuple(one for one, _ in replays)
    if all(one.guessed for one in played):
        first = min(float(run.gpu_hours[run.gpu_hours > 0][0]) for run in recorded.runs if run.length > 0)
        raise BudgetError(
            f"{budget:g} GPU-hours pay for no score of any trial that {request.policy} began: the earliest after the "
            f"start of a run in '{request.table}' comes at {first:g}, and the full grid takes {full_cost:g}; give more "
            "with --budget"
        )
    truth = recorded.truth(request.target)
    return Replays(
        request=request,
        read=read,
        budget=budget,
        full_cost=full_cost,
        best=max(truth, key=lambda configuration: truth[configuration]),
        played=played,
        notes=(*read.notes, *_notes(request, recorded, played)),
        learnt=learnt,
        weights=replays[0][1],
    )


def _require_reached(request: ReplayRequest, recorded: Recorded) -> None:
    """Refuse a target at which no run was scored, nor near it."""
    if recorded.length < (1 - AROUND) * request.target:
        least = min(run.length for run in recorded.runs)
        raise InputError(
            f"--target {request.target:g}: the longest run of '{request.table}' ends at {recorded.length:g} GPU-hours, "
            f"and no run says what comes after; give at most {recorded.length:g}; all runs reach {least:g}"
        )


def _play_all(
    request: ReplayRequest, recorded: Recorded, budget: float, teacher: TransferPriors | None, progress: Progress
) -> Iterator[tuple[Played, Mapping[str, float]]]:
    """Yield the replay of each seed, with what the sources weighed at its end."""
    for turn in range(request.repeat):
        pool = Pool(teacher)

        def told(spent: float, before: float = turn * budget) -> None:
            progress(before + spent)

        one = play(
            recorded,
            open_policy(request.policy, search=None, pool=pool),
            budget=budget,
            target=request.target,
            seed=request.seed + turn,
            workers=request.workers,
            chooser=open_chooser(request.policy, pool),
            trace=turn == 0,
            progress=told,
        )
        yield one, pool.source_weights()


def _notes(request: ReplayRequest, recorded: Recorded, played: tuple[Played, ...]) -> list[str]:
    notes = []
    short = [run for run in recorded.runs if run.length < request.target * (1 - 1e-9)]
    if short:
        notes.append(
            f"{len(short)} of {len(recorded.runs)} runs end before the target of {request.target:g} GPU-hours: these "
            "are worth the mean of their last tenth"
        )
    guessed = sum(one.guessed for one in played)
    if guessed:
        notes.append(f"in {guessed} of {len(played)} replays the budget paid for no score, and the choice is a guess")
    return notes
