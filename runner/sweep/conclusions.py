"""What is believed and answered: a fit after every segment, the answer so far, and the one at the end; who decides."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from budgets.errors import BudgetError, NotFoundError
from planner.axes import named_configuration
from planner.belief.draws import JointDraws
from planner.belief.forecasts import PredictedScore
from planner.belief.pool import DRAWS as FEWER_DRAWS
from planner.belief.pool import Pool
from planner.metrics import INTERVAL_LEVEL
from planner.policy.actions import Policy
from planner.policy.champion_first import ChampionPolicy, longest_of, verdict
from planner.policy.chances import beliefs_of
from planner.policy.final import FinalPolicy, left_by
from planner.policy.policies import open_policy
from planner.recommend.answer import FinalAnswer, answer, answer_data
from planner.recommend.choice import Decided
from planner.recommend.facts import ConfigurationFacts, facts_of, require_choice, seed_sd
from planner.recommend.promise import promise, score_share
from planner.recommend.prospect import DRAWS
from planner.store.finals import Final, final_of, finals_of
from planner.store.read_model import sweep_snapshot
from planner.store.results import SO_FAR, RankedRow, save_recommendation
from planner.store.schema import Fit, Recommendation, Sweep
from planner.store.sweeps import sweep_named
from planner.view import CHAMPION_POLICY, Configuration, View, has_curve
from runner.sweep.final import final_price
from runner.sweep.journal import Journal
from runner.sweep.monitor import FinalRunMonitor, Promised
from runner.sweep.plan_rows import rate_of
from runner.sweep.spec import SweepSpec
from runner.sweep.state import SweepState


def stored_board(session: Session, sweep: str, folder: Path | None = None) -> SweepState:
    """Read how a sweep stands, finished, interrupted or under way, and change nothing; its folder may have moved."""
    stands = sweep_snapshot(session, sweep)
    spec = SweepSpec.model_validate(stands.sweep.config)
    return SweepState(spec if folder is None else spec.model_copy(update={"folder": str(folder)}), stands)


def answer_of(
    board: SweepState,
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


def planned_of(board: SweepState) -> dict[Configuration, ConfigurationFacts]:
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


MODEL = "sigmoids, all curves together"
# What a recommendation and a row of the ranked list have of a choice.
CHOSEN = (
    *("rollouts_per_prompt", "prompts_per_batch", "axes", "update_steps", "learning_rate", "recipe"),
    *("expected_score", "score_low", "score_high", "probability_best"),
)
GROWTH = 0.5  # of the scores that the answer so far rests on: with so many more it is worked out anew


class Conclusions:
    """Turns beliefs into rows."""

    def __init__(self, pool: Pool, board: SweepState, journal: Journal, *, growth: float = GROWTH) -> None:
        """Conclude from the same worlds that the policy decides on."""
        self._pool, self._growth = pool, growth
        self._board, self._journal = board, journal
        self._fitted: dict[int, int] = {}  # how many scores of a trial its last stored fit rests on
        self._known = 0  # scores that the stored fits rest on
        self._answered_on = 0  # so many of them, when the answer was last stored

    def fits(self) -> None:
        """Store a fit of every trial that has new scores and is not being trained right now."""
        board = self._board
        running = {segment.trial for segment in board.running.values()}
        due = [trial for trial in board.fresh - running if self._fitted.get(trial, 0) < len(board.trials[trial].scores)]
        trials = [board.trials[trial] for trial in due if has_curve(board.trials[trial])]
        began = time.perf_counter()
        beliefs = beliefs_of(self._pool.joint_draws(board.view(0)), trials) if trials else {}
        board.fresh -= set(due)  # what could not be fitted is tried again in the next turn
        if not trials:
            return
        took = 1000 * (time.perf_counter() - began) / len(beliefs)
        for trial, belief in beliefs.items():
            self._journal.add_row(
                Fit,
                trial_id=trial,
                made_at=self._journal.clock.now(),
                model=MODEL,
                verdict=belief.verdict,
                upto_gpu_hours=belief.upto_gpu_hours,
                target_gpu_hours=board.spec.target_gpu_hours,
                parameters={name: asdict(parameter) for name, parameter in belief.parameters.items()},
                predicted_mean=belief.score.median,
                predicted_low=belief.score.low,
                predicted_high=belief.score.high,
                level=INTERVAL_LEVEL,
                fit_milliseconds=took,
                probability_best=belief.probability_best,
            )
            scores = len(board.trials[trial].scores)
            self._known += scores - self._fitted.get(trial, 0)
            self._fitted[trial] = scores

    def so_far(self) -> None:
        """Store the answer as it stands, once there is clearly more to rest it on than when it was last stored.

        Every face of a sweep that runs shows this one: what each would work out by itself would be of another moment.
        """
        if self._known and self._known >= (1 + self._growth) * self._answered_on:
            self._answered_on = self._known
            self.recommend(so_far=True)

    def recommend(self, *, so_far: bool = False) -> None:
        """Store the ranked allocations and the recommended one; nothing when no trial got beyond the base model."""
        board, journal = self._board, self._journal
        board.reprice()
        try:
            draws = FEWER_DRAWS if so_far else DRAWS
            answer = answer_of(board, pool=self._pool, draws=draws)
        except (NotFoundError, BudgetError):
            return
        chosen = answer.chosen
        row: dict[str, Any] = {
            "made_at": journal.clock.now(),
            "expected_regret": chosen.expected_regret,
            "gpu_hours_to_target": chosen.gpu_hours,
            "details": details(answer) | ({SO_FAR: True} if so_far else {}),
            **{name: getattr(chosen, name) for name in CHOSEN},
        }
        rows = rankings(answer)
        sweep = board.sweep
        journal.add(lambda session: save_recommendation(session, sweep, Recommendation(**row), rows))


def details(answer: FinalAnswer) -> dict[str, Any]:
    """Return what a stored recommendation has beside its columns: the reason, and the whole answer as data."""
    reason = " ".join([answer.how_sure, *([f"{answer.runner_up.sentence}."] if answer.runner_up else [])])
    return {"reason": reason, **answer_data(answer)}


def rankings(answer: FinalAnswer) -> list[RankedRow]:
    """Return the ranked list of an answer: what can be run, the chosen one first, and then what cannot.

    That has no score: it has failed, or is too dear for one update.
    """
    ranked = [
        RankedRow(
            rank=rank,
            gpu_hours_to_target=choice.gpu_hours,
            gpu_hours_spent=choice.gpu_hours_spent,
            status=choice.status,
            **{name: getattr(choice, name) for name in CHOSEN},
        )
        for rank, choice in enumerate(answer.ranked, start=1)
    ]
    left_out = [
        RankedRow(
            rank=rank,
            rollouts_per_prompt=configuration.rollouts_per_prompt,
            prompts_per_batch=configuration.prompts_per_batch,
            update_steps=(steps := facts.steps(answer.target_gpu_hours)),
            learning_rate=facts.learning_rate,
            recipe=facts.recipe,
            gpu_hours_spent=facts.gpu_hours_spent,
            gpu_hours_to_target=steps * facts.gpu_hours_per_step,
            status=facts.status,
            axes=configuration.axes,
        )
        for rank, (configuration, facts) in enumerate(answer.left_out.items(), start=len(ranked) + 1)
    ]
    return [*ranked, *left_out]


Concluding = Callable[[SweepState, Journal], Conclusions | FinalRunMonitor]


def deciding(session: Session, sweep: str, spec: SweepSpec) -> tuple[Policy, Concluding]:
    """Return the policy of a stored sweep and what makes its conclusions; both fit the same curves in one pool."""
    pool, row = Pool(), sweep_named(session, sweep)
    final = final_of(session, row.id)
    if final is None:
        explores = spec.policy != CHAMPION_POLICY
        policy = open_policy(spec.policy, search=spec.search, pool=pool) if explores else ChampionPolicy()
        return policy, partial(Conclusions, pool)
    pilots = session.get_one(Sweep, final.of_sweep_id)
    view = evidence(session, pilots, before=final.id)
    others = {number: trial for number, trial in view.trials.items() if number != final.from_trial_id}
    without_pilot = replace(view, trials=others)
    promised = Promised.of(session, final, _remedy(session, final, pilots))
    policy = FinalPolicy(partial(left_by, without_pilot, pool) if final.stop_when_won else None)
    return policy, partial(FinalRunMonitor, without_pilot, promised, pool)


def evidence(session: Session, pilots: Sweep, before: int | None = None) -> View:
    """Return what is known of a sweep's configurations: its pilots', and its final runs' so far, or before another."""
    view = stored_board(session, pilots.name).view(0)
    trials = dict(view.trials)
    for final, row in finals_of(session, pilots.id):
        if before is None or final.id < before:
            trials |= stored_board(session, row.name).trials
            trials.pop(final.from_trial_id or 0, None)  # the same run, as far as its pilot went
    return replace(view, trials=trials)


def _remedy(session: Session, final: Final, pilots: Sweep) -> str:
    """Name the runner-up of the recommendation, and the command that launches it with what is left."""
    query = session.query(Recommendation).where(Recommendation.sweep_id == pilots.id)
    answer = query.order_by(Recommendation.id.desc()).first()
    rival = None if answer is None else answer.details.get("runner_up")
    if not rival:
        return ""
    n, B = rival["rollouts_per_prompt"], rival["prompts_per_batch"]
    name = named_configuration(Configuration(n, B, tuple(rival["axes"].items())))
    return (
        f"the runner-up is {name}: once this run has ended (`rlplan stop`), `rlplan launch {pilots.name} "
        f"--allocation n={n},B={B}` runs it with what is left of the budget"
    )
