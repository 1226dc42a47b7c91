"""From a board, live or read back from the database, to the answer of its sweep."""

from dataclasses import replace
from pathlib import Path

from sqlalchemy.orm import Session

from planner.belief.draws import JointDraws
from planner.belief.forecasts import PredictedScore
from planner.belief.pool import Pool
from planner.policy.champion_first import longest_of, verdict
from planner.recommend.answer import FinalAnswer, answer
from planner.recommend.choice import Decided
from planner.recommend.facts import ConfigurationFacts, facts_of, require_choice, seed_sd
from planner.recommend.promise import promise, score_share
from planner.recommend.prospect import DRAWS
from planner.store.state import sweep_state
from planner.view import Configuration
from runner.sweep.board import Board
from runner.sweep.finals import final_price
from runner.sweep.planned import rate_of
from runner.sweep.spec import SweepSpec


def stored_board(session: Session, sweep: str, folder: Path | None = None) -> Board:
    """Read how a sweep stands, finished, interrupted or under way, and change nothing; its folder may have moved."""
    stands = sweep_state(session, sweep)
    spec = SweepSpec.model_validate(stands.sweep.config)
    return Board(spec if folder is None else spec.model_copy(update={"folder": str(folder)}), stands)


def answer_of(
    board: Board,
    target_gpu_hours: float | None = None,
    joint: JointDraws | None = None,
    pool: Pool | None = None,
    draws: int = DRAWS,
) -> FinalAnswer:
    """Return the recommendation for a final run of so many GPU-hours, by default the plan's.

    It has what the pilots leave over as well; on the same GPUs it goes on from its pilot, whose GPU-hours it need not
    pay for again.

    What is believed does not depend on what is asked: the curves are always fitted for the plan's own target. Who has
    fitted them already gives the `joint`, or the `pool` that did.
    """
    view, spec = board.view(0), board.spec
    # What is set aside for workers that wait is given back in the end, and what a worker has overrun is gone.
    # A champion's target is all there is, the sweep's GPU-hours among them.
    left_over = (0.0 if board.champion is not None else board.ledger.budget) - board.ledger.charged
    facts, target = facts_of(view, planned_of(board)), target_gpu_hours or spec.target_gpu_hours + left_over
    longest = {configuration: longest_of(view, configuration) for configuration in facts}
    for configuration, trial in longest.items():
        scores, begun = (trial.scores, trial.step if spec.goes_on else 0) if trial else ((), 0)
        priced = final_price(board, configuration, facts[configuration].gpu_hours_per_step, scores, begun)
        facts[configuration] = replace(facts[configuration], final=priced)
    require_choice(facts, target, further=target_gpu_hours is not None)  # a joint belief needs a curve
    drawn = (pool or Pool()).joint_draws(view, draws) if joint is None else joint
    between_seeds, share = seed_sd(view.trials.values()), score_share(view.trials.values())

    def promised(configuration: Configuration, gpu_hours: float) -> PredictedScore:
        trial = longest[configuration] if spec.goes_on else None
        number = None if trial is None else trial.trial
        return promise(drawn, configuration, gpu_hours, between_seeds, share, number, parts=1).end

    return answer(
        drawn,
        facts,
        target,
        seed_sd=between_seeds,
        prompt_set_size=board.plan.workload.get("prompt_set_size"),
        paid=spec.continues_pilot,
        decided=None if board.champion is None else Decided(verdict(view), board.champion.total_gpu_hours),
        promised=promised,
        goes_on=spec.goes_on,
    )


def planned_of(board: Board) -> dict[Configuration, ConfigurationFacts]:
    """Return what a run of each configuration would be: of those with a trial, and of those that could get one."""
    planned: dict[Configuration, ConfigurationFacts] = {}
    for number, trial in board.trials.items():
        facts = board.facts[number]
        terms = ConfigurationFacts(facts.learning_rate, facts.recipe, trial.compared_per_step)
        planned.setdefault(trial.configuration, terms)
    for configuration, cell in board.view(0).open_cells.items():
        candidate, recipe = board.candidate(configuration), board.spec.recipe(configuration.axes)
        rate = rate_of(candidate, configuration.axes)
        terms = ConfigurationFacts(rate, recipe.name, cell.compared_per_step)
        planned.setdefault(configuration, terms)
    return planned
