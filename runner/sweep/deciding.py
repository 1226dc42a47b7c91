"""Who decides in a sweep and what is concluded: of its pilots, or of its final run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sqlalchemy.orm import Session

from planner.axes import named_configuration
from planner.belief.pool import Pool
from planner.policy.actions import Policy
from planner.policy.champion_first import ChampionPolicy
from planner.policy.final import FinalPolicy, left_by
from planner.policy.policies import open_policy
from planner.store.finals import Final, final_of, finals_of
from planner.store.schema import Recommendation, Sweep
from planner.store.sweeps import sweep_named
from planner.view import CHAMPION_POLICY, Configuration, View
from runner.sweep.answering import stored_board
from runner.sweep.board import Board
from runner.sweep.concluding import Conclusions
from runner.sweep.journal import Journal
from runner.sweep.monitoring import FinalRunMonitor, Promised
from runner.sweep.spec import SweepSpec

Concluding = Callable[[Board, Journal], Conclusions | FinalRunMonitor]


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
    known = replace(view, trials=others)
    promised = Promised.of(session, final, _remedy(session, final, pilots))
    policy = FinalPolicy(partial(left_by, known, pool) if final.stop_when_won else None)
    return policy, partial(FinalRunMonitor, known, promised, pool)


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
    wanted = session.query(Recommendation).where(Recommendation.sweep_id == pilots.id)
    answer = wanted.order_by(Recommendation.id.desc()).first()
    rival = None if answer is None else answer.details.get("runner_up")
    if not rival:
        return ""
    n, B = rival["rollouts_per_prompt"], rival["prompts_per_batch"]
    name = named_configuration(Configuration(n, B, tuple(rival["axes"].items())))
    return (
        f"the runner-up is {name}: once this run has ended (`rlplan stop`), `rlplan launch {pilots.name} "
        f"--allocation n={n},B={B}` runs it with what is left of the budget"
    )
