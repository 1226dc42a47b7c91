"""The answer: which allocation to run in full, how sure that is, and what speaks for the others."""

from dataclasses import dataclass

from planner.recommending.cautions import Caution, cautions
from planner.recommending.choice import Choice, Chooser
from planner.recommending.equivalent import TIE
from planner.recommending.facts import Facts, alike, named, require_choice
from planner.recommending.frontier import Frontier, frontier
from planner.recommending.noise import SEED_SD
from planner.recommending.pareto import Pareto, pareto
from planner.recommending.prospect import Prospect
from planner.recommending.rival import Rival, rival
from planner.sweeping.chances import NEAR
from planner.sweeping.joint import Joint

FACTORS = ((-2, 0.25), (-1, 0.5), (0, 1.0), (1, 2.0), (2, 4.0))  # octaves and times the target


@dataclass(frozen=True, slots=True)
class AtBudget:
    """What would be taken if the final run had so many times the GPU-hours; None where they pay for no step."""

    factor: float
    gpu_hours: float
    choice: Choice | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is recommended at the target, and everything that it rests on.

    `equivalent` leaves the chosen one out. `ranked` has every configuration that can be run, the chosen one first and
    then by expectation; `left_out` has the others: what has failed, or is too dear for one update.
    """

    target_gpu_hours: float
    chosen: Choice
    why: str
    runner_up: Rival | None
    equivalent: tuple[Choice, ...]
    ranked: tuple[Choice, ...]
    left_out: Facts
    budgets: tuple[AtBudget, ...]
    frontier: Frontier
    pareto: Pareto
    cautions: tuple[Caution, ...]
    seed_sd: float
    draws: int

    @property
    def what(self) -> str:
        """What to run, in a sentence, and what it is expected to score, in another."""
        chosen = self.chosen
        equals = alike(1 + len(self.equivalent), chosen.probability_within_002)
        take = f"{equals[:1].upper()}{equals[1:]}; take" if equals else "Run"
        return (
            f"{take} {named(chosen.configuration)} for M={chosen.update_steps:,} updates at learning rate "
            f"{chosen.learning_rate:.2g} with recipe {chosen.recipe}. After {chosen.gpu_hours:.3g} GPU-hours its score "
            f"is expected to be {chosen.expected_score:.3f}, for a new run between {chosen.score_low:.3f} and "
            f"{chosen.score_high:.3f} with 90 % probability."
        )

    @property
    def how_sure(self) -> str:
        """The chances, and why it was taken among equals."""
        chosen = self.chosen
        return (
            f"P(within {NEAR:g} of the best) is {chosen.probability_within_002:.2f}, P(within 0.01) "
            f"{chosen.probability_within_001:.2f}, P(best) {chosen.probability_best:.2f}; it is expected to fall "
            f"{chosen.expected_regret:.3f} short of the best in hindsight. It was taken because {self.why}."
        )


def answer(
    joint: Joint,
    facts: Facts,
    target_gpu_hours: float,
    *,
    seed_sd: float = SEED_SD,
    prompt_set_size: int | None = None,
    tie: float = TIE,
) -> Answer:
    """Return the recommendation for a final run of so many GPU-hours.

    `seed_sd` is how much a run's score differs from its configuration's mean; `tie` is what may be given up in expected
    score for a cheaper or steadier choice. NotFoundError when nothing was seen or all has failed, BudgetError when no
    update step can be paid for.
    """
    require_choice(facts, target_gpu_hours)
    prospect = Prospect.of(joint, facts, target_gpu_hours)
    chooser = Chooser(prospect, seed_sd, tie)
    rung = prospect.rung(0)
    settled = chooser.settled(rung)
    by_expectation = sorted(range(len(prospect.configurations)), key=lambda row: -prospect.expected[rung, row])
    able = [row for row in by_expectation if prospect.able[rung, row] and row != settled.row]
    return Answer(
        target_gpu_hours=target_gpu_hours,
        chosen=chooser.choice(rung),
        why=settled.reason,
        runner_up=rival(joint, chooser, settled.row),
        equivalent=tuple(chooser.described(rung, row) for row in settled.equivalent if row != settled.row),
        ranked=tuple(chooser.described(rung, row) for row in (settled.row, *able)),
        left_out={
            prospect.configurations[row]: prospect.facts[row] for row in by_expectation if not prospect.able[rung, row]
        },
        budgets=tuple(_at(chooser, octaves, factor) for octaves, factor in FACTORS),
        frontier=frontier(chooser),
        pareto=pareto(chooser),
        cautions=cautions(chooser, settled.row, len(settled.equivalent), prompt_set_size),
        seed_sd=seed_sd,
        draws=prospect.scores.shape[1],
    )


def _at(chooser: Chooser, octaves: int, factor: float) -> AtBudget:
    prospect = chooser.prospect
    rung = prospect.rung(octaves)
    choice = chooser.choice(rung) if prospect.able[rung].any() else None
    return AtBudget(factor, factor * prospect.target_gpu_hours, choice)
