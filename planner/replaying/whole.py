"""Plays the whole money over recorded runs: a champion's start, challengers, and the run that goes on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from planner.champion.calibration import Calibration
from planner.champion.policy import ChampionPolicy
from planner.champion.verdict import Verdict, longest_of, verdict
from planner.replaying.game import Game, Pilots
from planner.replaying.recorded import Recorded
from planner.view import Champion, Configuration, View

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
    left = total - (game.spent - spent[decided.configuration])
    return WholePlayed(
        champion=decided.champion,
        chosen=decided.configuration,
        reached=truth(max(LEAST_SHARE * total, left))[decided.configuration],
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
