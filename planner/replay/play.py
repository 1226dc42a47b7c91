"""Plays a policy over recorded runs in simulated time, as a sweep with so many workers would have gone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final, Unpack

from planner.belief.pool import Pool
from planner.policy.actions import Policy
from planner.policy.calibration import Calibration
from planner.policy.champion_first import ChampionPolicy, Verdict, longest_of, verdict
from planner.recommend.choice import by_worth
from planner.recommend.facts import facts_in
from planner.recommend.prospect import DRAWS, Prospect
from planner.replay.game import Game, Pilots, Terms
from planner.replay.recorded import Recorded
from planner.view import Champion, Configuration, View, has_curve

Chooser = Callable[[View], Configuration | None]  # None while nothing was seen that speaks for any


def highest_last_score(view: View) -> Configuration | None:
    """Return the configuration of the trial with the highest last score, however far it was trained.

    This is what Ray Tune's `get_best_result` (scope "last") and Syne Tune's `best_config` answer with. The first of
    equals is taken.
    """
    scored = [trial for trial in view.trials.values() if trial.scores]
    return max(scored, key=lambda trial: trial.scores[-1].score).configuration if scored else None


def highest_expected(pool: Pool) -> Chooser:
    """Return what a sweep recommends by: the worth at the target, given what all curves say together.

    Configurations without a curve can be chosen as well; the highest last score decides while nothing has a curve.
    """

    def chosen(view: View) -> Configuration | None:
        if not any(has_curve(trial) for trial in view.trials.values()):
            return highest_last_score(view)
        joint = pool.joint_draws(view, DRAWS)
        final, paid = view.final_gpu_hours, view.continues_pilot
        prospect = Prospect.of(joint, facts_in(view), final, octaves=(0, 0), paid=paid)
        order = by_worth(prospect, prospect.rung(0))
        return prospect.configurations[order[0]] if order else highest_last_score(view)

    return chosen


def open_chooser(policy: str, pool: Pool) -> Chooser:
    """Return what a policy of that name chooses by: rlplan by what it believes, the others by what they have seen."""
    return highest_expected(pool) if policy == "rlplan" else highest_last_score


MOST_MARKS: Final = 40


@dataclass(frozen=True, slots=True)
class ChoiceMark:
    """What would have been chosen after so many GPU-hours, and how far it falls short of the best."""

    gpu_hours: float
    chosen: Configuration
    regret: float


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a policy: its choice, what that is worth at the target, and what it took."""

    policy: str
    chosen: Configuration
    guessed: bool  # nothing was seen that speaks for any: the first in the order of this seed was taken
    gpu_hours_spent: float
    score_at_target: float
    best_at_target: float
    regret: float
    final_gpu_hours: float  # of its final run: more than the target where unspent money and its own pilot lengthen it
    trace: tuple[ChoiceMark, ...] = field(repr=False)  # where the choice changed
    decisions: int  # actions of the policy that were carried out
    wall_hours: float


def play(
    recorded: Recorded,
    policy: Policy,
    *,
    chooser: Chooser,
    trace: bool = True,
    progress: Callable[[float], None] | None = None,
    **terms: Unpack[Terms],
) -> Played:
    """Play a policy to its end, or to the end of the budget; equal arguments give equal results.

    Every run is a trial that waits to be started. The policy, a new one, sees a point once its trial was trained past
    it, in a segment that has ended. The chooser says what would be taken; with a trace it is asked in between, too.
    """
    game, truth = Game(recorded, **terms), recorded.truth(terms["target"])
    best = max(truth.values())
    marks = _Marks({configuration: best - score for configuration, score in truth.items()}, terms["budget"])
    for view in game.views(policy):
        if progress is not None:
            progress(game.spent)
        if trace and marks.due(game.spent):
            marks.add(game.spent, chooser(view))
    view = game.view()
    last = chooser(view)
    chosen = game.first if last is None else last
    if trace:
        marks.add(game.spent, chosen)
    return Played(
        policy=policy.name,
        chosen=chosen,
        guessed=last is None,
        gpu_hours_spent=game.spent,
        score_at_target=truth[chosen],
        best_at_target=best,
        regret=marks.regrets[chosen],
        final_gpu_hours=view.final_run(chosen),
        trace=tuple(marks.found),
        decisions=game.decisions,
        wall_hours=game.wall_hours,
    )


class _Marks:
    """Where the choice changed, of forty looks at most."""

    def __init__(self, regrets: Mapping[Configuration, float], budget: float) -> None:
        self.found: list[ChoiceMark] = []
        self.regrets, self._every, self._next = regrets, budget / MOST_MARKS, 0.0

    def due(self, spent: float) -> bool:
        """Whether it is time for the next look; that counts as one."""
        if not 0 < spent >= self._next:
            return False
        self._next = spent + self._every
        return True

    def add(self, spent: float, chosen: Configuration | None) -> None:
        """Note a choice, if it is another one than the last."""
        if chosen is not None and (not self.found or self.found[-1].chosen != chosen):
            self.found.append(ChoiceMark(spent, chosen, self.regrets[chosen]))


LEAST_SHARE = 1e-3  # of all GPU-hours, what a final run has at least


@dataclass(frozen=True, slots=True)
class WholePlayed:
    """What the final run reaches with all of the money, and what the champion alone would have."""

    champion: Configuration
    chosen: Configuration
    reached: float
    champion_alone: float
    best_known: float  # of the configuration that ends highest with all GPU-hours, had one known it
    switched: bool
    challenger_gpu_hours: float
    gpu_hours_spent: float  # before the final run went on
    decisions: int
    verdict: Verdict


def play_whole(
    recorded: Recorded,
    champion: Champion,
    *,
    seed: int,
    workers: int = 1,
    pilots: Pilots | None = None,
    truth: Callable[[float], Mapping[Configuration, float]] | None = None,
    fitted: Calibration | None = None,
    progress: Callable[[float], None] = lambda spent: None,
) -> WholePlayed:
    """Play a champion with all GPU-hours; what others took is missing at the end of the run that goes on.

    `truth` gives each configuration's score after so many GPU-hours where that is known better than by its runs;
    `progress` is called before each decision with what is spent.
    """
    truth = truth or recorded.truth
    total = champion.total_gpu_hours
    game = Game(
        recorded,
        budget=total,
        target=total,
        seed=seed,
        workers=workers,
        pilots=pilots,
        rest_to_final=True,
        continues_pilot=True,
        champion=champion,
    )
    policy = ChampionPolicy(fitted)
    for _ in game.views(policy):
        progress(game.spent)
    view = game.view()
    decided = verdict(view, champion, fitted)
    ends, spent = (
        truth(total),
        {choice: paid_by(view, choice) for choice in (decided.champion, decided.configuration)},
    )
    remaining = total - (game.spent - spent[decided.configuration])
    return WholePlayed(
        champion=decided.champion,
        chosen=decided.configuration,
        reached=truth(max(LEAST_SHARE * total, remaining))[decided.configuration],
        champion_alone=fmean(ends[candidate] for candidate in champion.candidates),
        best_known=max(ends.values()),
        switched=decided.switched,
        challenger_gpu_hours=game.spent - spent[decided.champion],
        gpu_hours_spent=game.spent,
        decisions=game.decisions,
        verdict=decided,
    )


def paid_by(view: View, configuration: Configuration) -> float:
    """Return what a configuration's longest trial has taken."""
    trial = longest_of(view, configuration)
    return 0.0 if trial is None else trial.gpu_hours_spent
