"""`rlplan preview`: plays a policy on a stored plan in worlds drawn from the prior, at several pilot shares."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from statistics import fmean, stdev
from typing import Any, Final, Literal

from budgets.errors import BudgetError, InputError
from planner.axes import named_configuration
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import percent
from planner.policy.champion import KEY
from planner.policy.champion_first import ChampionPolicy
from planner.policy.policies import open_policy
from planner.proposals import propose
from planner.store import open_store
from planner.view import Configuration
from rlplan.commands.preview_worlds import (
    PlayedWorld,
    UnpilotedWorld,
    assumptions_of,
    champion_outcome,
    pilots_outcome,
    request_of,
    setting_of,
    splits_of,
)
from rlplan.reading.row_choice import chosen_data
from rlplan.requests.plan import PreviewRequest
from rlplan.wording.answers import Answer, Key, columns
from rlplan.wording.numbers import aligned_hours, duration, hours, listing, plain_number, plural, share
from rlplan.wording.screen import ROWS, Canvas, Column, Invocation, Part, next_steps, progress_shown, table_of
from runner.simulation.drawn import DrawnWorld, Setting

CHAMPION, EXPLORING = ChampionPolicy.name, "rlplan"  # what decides, by the kind of the plan
NO_PILOTS: Final = 0.0
FEWEST_DRAWS, MOST_DRAWS = 3, 40  # where their number is not given
PATIENCE_SECONDS: Final = 12.0  # after which no further world is begun then
MOST_SECONDS: Final = 18.0  # after which one is no more played to its end, even the first


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error; of a single draw the error is not known."""

    mean: float
    standard_error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Return the mean of independent draws."""
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), error)


@dataclass(frozen=True, slots=True)
class FractionSummary:
    """What is to be expected at one pilot fraction."""

    pilot_fraction: float
    pilot_gpu_hours: float
    final_gpu_hours: float
    final_wall_hours: float
    gpu_hours_spent: Estimate
    pilot_wall_hours: Estimate
    score: Estimate
    regret: Estimate
    probability_near_best: Estimate
    gain_over_first_ranked: Estimate


@dataclass(frozen=True, repr=False)
class Preview(Answer):
    """All worlds at all fractions."""

    COLUMNS = columns("""
        pilot_fraction pilot_gpu_hours final_gpu_hours final_wall_hours gpu_hours_spent
        gpu_hours_spent_standard_error pilot_wall_hours pilot_wall_hours_standard_error score
        score_standard_error regret regret_standard_error probability_near_best
        probability_near_best_standard_error gain_over_first_ranked gain_over_first_ranked_standard_error
    """)

    plan: str
    policy: str
    seed: int
    budget_gpu_hours: float
    workers: int
    gpus_per_trial: int = field(repr=False)
    pilot_gpus: int
    pilot_gpu_hours: dict[float, float] = field(repr=False)  # by fraction
    outcomes: dict[float, tuple[PlayedWorld, ...]] = field(repr=False)  # by fraction
    without: tuple[UnpilotedWorld, ...] = field(repr=False)
    first_ranked: Configuration = field(repr=False)
    assumptions: tuple[str, ...]

    cut_after_seconds: float | None = None  # of play, where that ended it before all worlds were drawn

    draws = Key[int](lambda preview: len(preview.without), "How many worlds were drawn.")
    fractions = Key[Sequence[FractionSummary]]("summaries")
    best_pilot_fraction = Key[float]("best_fraction")
    level_with_it = Key[Sequence[float]]("as_good", name="as_good")
    unpiloted = Key[Mapping[str, Mapping[str, Any]]](
        lambda preview: preview.scores_without_pilots, name="without_pilots"
    )
    near_best_within = Key[float](lambda _: EQUIVALENCE_MARGIN)

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each fraction."""
        return [
            {name: value for each in fields(row) for name, value in _cells(each.name, getattr(row, each.name))}
            for row in self.summaries
        ]

    @property
    def summaries(self) -> tuple[FractionSummary, ...]:
        """The fractions in their order."""
        return tuple(self._summary(fraction) for fraction in sorted(self.outcomes))

    @property
    def best_fraction(self) -> float:
        """The fraction with the highest expected score of the final run; the smallest of equals."""
        return max(self.summaries, key=lambda summary: summary.score.mean).pilot_fraction

    @property
    def as_good(self) -> tuple[float, ...]:
        """The other fractions that the draws cannot tell from the best one, compared world by world."""
        best = self.outcomes[self.best_fraction]
        return tuple(
            fraction
            for fraction, outcomes in sorted(self.outcomes.items())
            if fraction != self.best_fraction
            and _alike([a.score - b.score for a, b in zip(best, outcomes, strict=True)])
        )

    def without_pilots(self, choice: Literal["first_ranked", "random", "best"]) -> Estimate:
        """Return the score of a final run on all of the budget, for one way to choose what is run."""
        return Estimate.of([getattr(one, choice) for one in self.without])

    @property
    def scores_without_pilots(self) -> dict[str, dict[str, Any]]:
        """The score of a final run on all of the budget, by how it is chosen."""
        first, chance, best = (self.without_pilots(choice) for choice in ("first_ranked", "random", "best"))
        return {
            "first_ranked": {**chosen_data(self.first_ranked), "score": first},
            "random": {"score": chance},
            "best": {"score": best},
        }

    def _summary(self, fraction: float) -> FractionSummary:
        outcomes, pilot = self.outcomes[fraction], self.pilot_gpu_hours[fraction]
        final = self.budget_gpu_hours - pilot
        pairs = zip(outcomes, self.without, strict=True)
        return FractionSummary(
            pilot_fraction=fraction,
            pilot_gpu_hours=pilot,
            final_gpu_hours=final,
            final_wall_hours=final / self.gpus_per_trial,
            gpu_hours_spent=Estimate.of([one.gpu_hours_spent for one in outcomes]),
            pilot_wall_hours=Estimate.of([one.wall_hours for one in outcomes]),
            score=Estimate.of([one.score for one in outcomes]),
            regret=Estimate.of([one.regret for one in outcomes]),
            probability_near_best=Estimate.of([float(one.regret <= EQUIVALENCE_MARGIN) for one in outcomes]),
            gain_over_first_ranked=Estimate.of([one.score - none.first_ranked for one, none in pairs]),
        )

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw what is to be expected at each pilot fraction."""
        yield canvas.line(f"{self.plan}: what {_what(self)} should add to the final score", "bold")
        for line in _best(self):
            yield from canvas.lines(line)
        yield ""
        columns: Sequence[Column[FractionSummary]] = (
            Column("their share", lambda summary: share(summary.pilot_fraction)),
            Column("GPU-hours", lambda summary: aligned_hours(summary.gpu_hours_spent.mean)),
            Column("time", lambda summary: duration(summary.pilot_wall_hours.mean)),
            Column("final score", lambda summary: _with_error(summary.score)),
            Column("below the best", lambda summary: _with_error(summary.regret)),
            Column(f"within {EQUIVALENCE_MARGIN:g}", lambda summary: percent(summary.probability_near_best.mean)),
        )
        shown = self.summaries if invocation.explain else self.summaries[:ROWS]
        yield table_of(shown, columns, canvas)
        yield ""
        seconds = self.cut_after_seconds
        cut = "" if seconds is None else f" (cut after {seconds:.0f} s: --draws {MOST_DRAWS} plays {MOST_DRAWS})"
        yield from canvas.lines(
            f"{plural(self.draws, 'simulated sweep')} a row{cut}, policy {self.policy}, scores drawn from the prior; ± "
            "is one standard error. Below the best: how much lower the choice scores than the best one; within "
            f"{EQUIVALENCE_MARGIN:g}: how often it is that near.",
            "dim",
        )
        if invocation.explain:
            yield from _explained(self, canvas)
        show = invocation.step("rank", self.plan, "its rows, ranked")
        more = [] if invocation.explain else [invocation.explained("what is assumed")]
        yield from next_steps([show, *more], canvas)


def _alike(differences: Sequence[float]) -> bool:
    """Whether a mean difference is within its 95 % interval of none; of few draws that is wide (Student, 1908)."""
    from scipy.special import stdtrit  # noqa: PLC0415 (a tenth of a second)

    estimate = Estimate.of(differences)
    if estimate.standard_error is None:
        return True
    return bool(abs(estimate.mean) <= stdtrit(len(differences) - 1, 0.975) * estimate.standard_error)


def answer(request: PreviewRequest, clock: Callable[[], float] = time.monotonic) -> Preview:
    """Play the policy in world after world at each pilot fraction; BudgetError when none of them pays for pilots."""
    fractions = _sound(request)
    with open_store(request.db, read_only=True) as store:
        plan = store.plan(request.plan)
        policy = request.policy or (CHAMPION if KEY in plan.config else EXPLORING)
        request_of_plan = request_of(plan, store, champion=policy == CHAMPION)
        several = all(candidate.axes for candidate in plan.candidates)
    if policy == CHAMPION and request_of_plan.champion is None:
        raise InputError(f"--policy {policy}: {plan.name} explores the grid and has no champion")
    splits, refused = splits_of(request_of_plan, fractions)
    if not splits:
        raise BudgetError(f"{plan.name}: {'; '.join(refused)}")
    request_of_plan = request_of_plan.with_pilots(gpus=splits[-1].proposal.request.pilots.gpus)
    setting = setting_of(request_of_plan, splits)
    unpiloted = propose(request_of_plan.with_pilots(fraction=NO_PILOTS))
    first_ranked = unpiloted.run.cell.configuration
    workers = max(1, request_of_plan.pilot_hardware.parallel_trials)
    outcomes: dict[float, list[PlayedWorld]] = {split.fraction: [] for split in splits}
    without: list[UnpilotedWorld] = []
    until = math.inf if request.draws else clock() + MOST_SECONDS

    def in_time(_: float) -> None:
        if clock() > until:
            raise TimeoutError

    play_split = partial(champion_outcome if policy == CHAMPION else partial(pilots_outcome, policy), in_time)
    with progress_shown(f"playing {policy} in drawn worlds", _most(request) * len(splits)) as progress:
        for number, world in enumerate(_worlds(request, setting, clock)):
            truth = world.truth(request_of_plan.budget_gpu_hours)
            none = UnpilotedWorld(truth[first_ranked], fmean(truth.values()), max(truth.values()))
            played = {}
            try:
                for done, split in enumerate(splits, start=1):
                    at_share = play_split(world, split, request.seed + number, workers) if split.fraction else None
                    played[split.fraction] = at_share or none.played
                    progress(number * len(splits) + done)
            except TimeoutError:
                break
            without.append(none)
            for fraction, outcome in played.items():
                outcomes[fraction].append(outcome)
    if not without:
        raise InputError(
            f"{plan.name}: one drawn world takes more than {MOST_SECONDS:g} s to play. Give --draws {FEWEST_DRAWS} to "
            "wait for as many, or one share in --pilot-fractions"
        )
    return Preview(
        plan=plan.name,
        policy=policy,
        seed=request.seed,
        budget_gpu_hours=request_of_plan.budget_gpu_hours,
        workers=workers,
        gpus_per_trial=request_of_plan.hardware.gpus_per_trial,
        pilot_gpus=request_of_plan.pilot_hardware.gpus_per_trial,
        pilot_gpu_hours={split.fraction: split.proposal.pilot_gpu_hours for split in splits},
        outcomes={fraction: tuple(worlds) for fraction, worlds in outcomes.items()},
        without=tuple(without),
        first_ranked=first_ranked,
        assumptions=(*assumptions_of(request_of_plan, setting, one_of_several=several), *refused),
        cut_after_seconds=None if len(without) == _most(request) else clock() - until + MOST_SECONDS,
    )


def _most(request: PreviewRequest) -> int:
    return request.draws or MOST_DRAWS


def _worlds(request: PreviewRequest, setting: Setting, clock: Callable[[], float]) -> Iterator[DrawnWorld]:
    """Yield as many worlds as are asked for; without a number, as many as patience lasts for."""
    began = clock()
    for number in range(_most(request)):
        yield DrawnWorld(setting, request.seed, number)
        if request.draws is None and number + 1 >= FEWEST_DRAWS and clock() - began > PATIENCE_SECONDS:
            return


def _sound(request: PreviewRequest) -> tuple[float, ...]:
    """Return the pilot fractions of a request that makes sense."""
    fractions = tuple(plain_number(text, "--pilot-fractions") for text in request.pilot_fractions.split(","))
    if not all(0 <= fraction < 1 for fraction in fractions):
        raise InputError(
            f"--pilot-fractions {','.join(f'{share:g}' for share in fractions)}: give shares of the budget from 0, "
            "which is no pilots, to below 1, such as 0,0.05,0.1,0.2"
        )
    if request.policy not in (None, CHAMPION):
        open_policy(request.policy, search=None)  # refuses what is not known
    return fractions


def _cells(name: str, value: float | Estimate) -> tuple[tuple[str, float | None], ...]:
    if isinstance(value, Estimate):
        return (name, value.mean), (f"{name}_standard_error", value.standard_error)
    return ((name, value),)


ENOUGH_DRAWS = 40  # to tell shares apart that differ by a hundredth, which is what they differ by


def _explained(preview: Preview, canvas: Canvas) -> Iterator[Part]:
    trials = f"{plural(preview.workers, 'trial')} at once, each on {plural(preview.pilot_gpus, 'GPU')}"
    final = f"; the final run on {preview.gpus_per_trial}" if preview.pilot_gpus != preview.gpus_per_trial else ""
    yield from canvas.lines(
        f"{hours(preview.budget_gpu_hours)} GPU-hours; {trials}{final}. The final run has what the pilots leave.", "dim"
    )
    first = "the champion" if preview.policy == CHAMPION else "the plan's first"
    first += f", {named_configuration(preview.first_ranked)}"
    without = [
        f"{_with_error(preview.without_pilots('first_ranked'))} with {first}",
        f"{_with_error(preview.without_pilots('random'))} with one at random",
        f"{_with_error(preview.without_pilots('best'))} with the best, if it were known",
    ]
    yield from canvas.lines(f"All on a final run, without {_what(preview)}: {'; '.join(without)}.")
    for assumed in preview.assumptions:
        yield from canvas.lines(f"Assumed: {assumed}.", "dim")


def _best(preview: Preview) -> Iterator[str]:
    """Say which share is the best, and before all else when it is none."""
    shares = {summary.pilot_fraction: summary for summary in preview.summaries}
    best, alike = shares[preview.best_fraction], list(preview.as_good)
    if len(alike) + 1 == len(shares) > 1 and preview.draws < ENOUGH_DRAWS:
        yield f"{plural(preview.draws, 'simulated sweep')} cannot tell the shares apart: give --draws {ENOUGH_DRAWS}."
        return
    piloted = max((row for row in shares.values() if row.pilot_fraction), key=lambda row: row.score.mean, default=None)
    what = _what(preview)
    if piloted is not None and NO_PILOTS in (best.pilot_fraction, *alike):
        part = f"{share(piloted.pilot_fraction)} of the budget"
        if best.pilot_fraction == NO_PILOTS and piloted.pilot_fraction not in alike:
            gain = _gain(piloted.gain_over_first_ranked, preview)
            if preview.policy == CHAMPION:  # no simulated run has a wrong rate, which challengers are there for
                yield f"Challengers are insurance: where nothing is wrong, a run with {part} for them ends {gain}."
            else:
                yield f"Pilots cost more than they gain: at best, with {part}, {gain}."
        else:
            yield f"No measurable difference between {part} for {what} and none."
        others = [part for part in (best.pilot_fraction, *alike) if part not in (NO_PILOTS, piloted.pilot_fraction)]
        if others:
            yield f"The same holds for {'a share' if len(others) == 1 else 'shares'} of {_shares(others)}."
        return
    yield f"Best share for {what}: {share(best.pilot_fraction)} of the budget" + (
        f"; level with it: {_shares(alike)}." if alike else "."
    )
    if piloted is not None:
        yield (
            f"They take {duration(best.pilot_wall_hours.mean)}, the final run {duration(best.final_wall_hours)}; "
            f"{_gain(best.gain_over_first_ranked, preview)}."
        )


def _what(preview: Preview) -> str:
    return "challengers" if preview.policy == CHAMPION else "pilots"


def _shares(fractions: Sequence[float]) -> str:
    return listing([share(fraction) for fraction in sorted(fractions)])


def _gain(estimate: Estimate, preview: Preview) -> str:
    size = _with_error(Estimate(abs(estimate.mean), estimate.standard_error))
    alone = "the champion alone" if preview.policy == CHAMPION else "row 1 without pilots"
    return f"{size} {'above' if estimate.mean >= 0 else 'below'} {alone}"


def _with_error(estimate: Estimate) -> str:
    error = "" if estimate.standard_error is None else f" ± {estimate.standard_error:.3f}"
    return f"{estimate.mean:.3f}{error}"
