"""Holds a final run against its promise while it is driven: a forecast, a line and warnings after each validation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from planner.axes import named_configuration
from planner.belief.forecasts import PredictedScore, RemainingGain, promised_at
from planner.belief.pool import DRAWS, Pool
from planner.logs.alarms import Scored, UpdateWatch, Warned, fall
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import percent
from planner.policy.final import end_of, nothing_to_win
from planner.policy.gains import LEAST_SCORES
from planner.recommend.promise import BROKEN, EndForecast, ForecastQuery, SwitchTarget, outlook
from planner.store.finals import (
    BEST,
    CLEARED,
    ENDING,
    PROMISE,
    STAY,
    SWITCH,
    VALIDATION,
    WARNING,
    WON,
    Final,
    ForecastOfFinal,
    forecasts_of,
    switch_of,
)
from planner.store.read_model import points_of
from planner.store.schema import Decision, Point, Sweep
from planner.view import TrialView, View, has_curve
from runner.ports.trial import TrialConfig
from runner.sweep.journal import Journal
from runner.sweep.kept import BestCheckpoint, takes_rate
from runner.sweep.state import SweepState

COPY_FAILED = "best-not-kept"
FALLS = ("fall", "hacking")  # warnings that are over when the score has come back
RESTATED_SHARE = 0.1  # of a final run, from which its end is promised again where it began with too few validations
RUINED = (*FALLS, "not-finite")  # after which an earlier checkpoint is better than the newest


@dataclass(frozen=True, slots=True)
class Promised:
    """What a final run is held against, as it was stored at the launch."""

    final: Final
    forecast_at: int  # the update of the last stored forecast, -1 without one
    warned: frozenset[str]  # rules that a former driver warned of
    has_won: bool
    rival: str | None  # what it was last advised to switch to
    of_sweep: str
    remedy: str  # what else could be run

    @classmethod
    def of(cls, session: Session, final: Final, remedy: str) -> "Promised":
        """Read what is stored; the row outlives the session, for it never changes."""
        forecasts = forecasts_of(session, final.id)
        decisions = session.execute(
            select(Decision.action, Decision.seen)
            .where(Decision.sweep_id == final.sweep_id, Decision.action.in_((WARNING, CLEARED, WON)))
            .order_by(Decision.number)
        ).all()
        warned: set[str] = set()
        for action, details in decisions:
            if action != WON:
                (warned.add if action == WARNING else warned.discard)(details["rule"])
        rival, of_sweep = switch_of(session, final.sweep_id)[0], session.get_one(Sweep, final.of_sweep_id).name
        session.expunge(final)
        return cls(
            final=final,
            forecast_at=forecasts[-1].step if forecasts else -1,
            warned=frozenset(warned),
            has_won=any(action == WON for action, _ in decisions),
            rival=rival,
            of_sweep=of_sweep,
            remedy=remedy,
        )

    @property
    def end(self) -> PredictedScore:
        """The score that it is to end with."""
        return PredictedScore(self.final.promised_score, self.final.promised_low, self.final.promised_high)

    def at(self, share: float) -> PredictedScore:
        """Return the score that was promised after a share of the run."""
        return promised_at([tuple(row) for row in self.final.promised_band], share)


class FinalRunMonitor:
    """Takes the place of a sweep's conclusions in its final run."""

    def __init__(self, evidence: View, promised: Promised, pool: Pool, board: SweepState, journal: Journal) -> None:
        """Judge by curves that are known, without that of the pilot which the run goes on from, and by its own."""
        self._known, self._promised, self._pool = evidence, promised, pool
        self._board, self._journal = board, journal
        self._forecast_at, self._warned, self._has_won = promised.forecast_at, set(promised.warned), promised.has_won
        self._rival = promised.rival
        self._mark: tuple[int, int] | None = None
        self._updates, self._watched = UpdateWatch(), 0
        facts = board.facts[self._run.trial]
        config = TrialConfig.model_validate(facts.config)
        self._best, self._back = BestCheckpoint(config, facts.folder), self._way_back(config)

    def fits(self) -> None:
        """Keep the best of what is saved before it goes on; nothing is stored before the turn's points are."""
        self._keep()

    def so_far(self) -> None:
        """Judge what was stored since the last look."""
        run = self._run
        with self._journal.store.read() as session:
            query = select(func.count(), func.coalesce(func.max(Point.attempt), 0)).where(Point.trial_id == run.trial)
            count, attempt = session.execute(query).one()
            if (mark := (count, attempt)) == self._mark:
                return
            points = points_of(session, run.trial)
        self._mark = mark
        for point in points:
            if point.optimizer_step > self._watched and point.metrics:
                self._watched = point.optimizer_step
                if (warned := self._updates.see(point.optimizer_step, point.metrics)) is not None:
                    self._warn(warned)
        scored = _scored(points, self._board)
        if scored and scored[-1].x > self._forecast_at:
            self._forecast_at = int(scored[-1].x)
            scores = tuple(self._board.scores_of(run.trial, points))  # also of a segment under way
            self._judge(scored, replace(run, scores=scores))

    def recommend(self, *, so_far: bool = False) -> None:
        """Judge the last validation, and tell the end unless it was interrupted."""
        self._journal.commit()
        self.so_far()
        self._keep(last=True)
        if so_far:
            return
        run = self._run
        with self._journal.store.read() as session:
            scored = _scored(points_of(session, run.trial), self._board)
            forecasts = forecasts_of(session, self._promised.final.id)
        if scored:
            ledger = self._board.ledger  # what was set aside for idle workers is left over too
            summary, numbers = _ending(self._promised, scored, run, ledger.budget - ledger.spent)
            clause, again = restated(self._promised.final.from_step, forecasts, scored, run)
            summary, numbers = summary + clause, numbers | again
            self._journal.note(ENDING, None, summary, **numbers)

    @property
    def _run(self) -> TrialView:
        """The only trial of a final run."""
        (run,) = self._board.trials.values()
        return run

    @property
    def _left(self) -> float:
        """GPU-hours that are left, were it to stop now."""
        return self._board.ledger.left + self._board.ledger.reserved

    def _keep(self, *, last: bool = False) -> None:
        """Keep the checkpoint of the best score so far."""
        run = self._run
        reason = (self._best.end if last else self._best.see)([score for score in run.scores if score.step <= run.step])
        if reason is not None:
            self._journal.note(COPY_FAILED, None, reason)

    def _way_back(self, config: TrialConfig) -> str:
        """Return how to go back to the best checkpoint; a storage has the last saves alone, which nothing outlives."""
        if self._board.spec.storage is not None:
            return f". Its last two saves lie in {self._board.spec.storage}, and no better one"
        sweep = self._promised.of_sweep
        rate = min(config.learning_rate / 2, self._board.candidate(self._run.configuration).learning_rate)
        lower = f" --learning-rate {rate:.3g}" if takes_rate(config) else ""
        return (
            f". The best checkpoint is kept in its folder '{BEST}': after `rlplan stop {sweep}`, `rlplan launch "
            f"{sweep} --from-best{lower}` goes on from it"
        )

    def _judge(self, scored: list[Scored], run: TrialView) -> None:
        forecast: EndForecast | None = None
        if has_curve(run):
            gpu_hours = max(0.0, self._left - self._board.start_ups.typical)
            query = ForecastQuery(run, end_of(run), self._promised.end.score, gpu_hours)
            forecast = outlook(self._known, query, self._pool, DRAWS)
        remaining_gain = forecast.left if forecast is not None and run.step < run.most_steps else None
        self._journal.note(VALIDATION, None, self._line(scored[-1], run, forecast), step=int(scored[-1].x))
        if forecast is not None:
            self._store(forecast, remaining_gain, run)
            self._hold(forecast)
            self._replan(forecast.rival)
        if (warned := fall(scored)) is None:
            for rule in self._warned.intersection(FALLS):
                self._clear(rule, "the validation has come back to its best")
        elif not self._warned.intersection(FALLS):
            self._warn(warned)
        if remaining_gain is not None and remaining_gain.won and not self._has_won:
            self._has_won = True
            saves = "`--stop-when-won` at the launch ends it here; `rlplan stop` does now, and the rest is kept"
            details = {"step": run.step, "share_left": remaining_gain.share, "expected": remaining_gain.expected}
            self._journal.note(WON, None, f"{nothing_to_win(remaining_gain)}; {saves}", **details)

    def _replan(self, rival: SwitchTarget | None) -> None:
        """Say where another allocation passes the bar, and where it does no more; nothing switches by itself."""
        worth = rival if rival is not None and rival.is_worth_it else None
        name = None if worth is None else named_configuration(worth.configuration)
        if name == self._rival:
            return
        self._rival = name
        if worth is None:
            self._journal.note(STAY, None, "no other allocation is expected to end more than 0.02 higher any more")
            return
        n, B, _ = worth.configuration
        sweep = self._promised.of_sweep
        advice = (
            f"with the {self._left:.3g} GPU-hours that are left, {name} is expected to end {worth.gain:.3f} higher, "
            f"its start-up paid: more than the bar of {EQUIVALENCE_MARGIN:g}. `rlplan stop {sweep}`, then "
            f"`rlplan launch {sweep} --switch` runs it"
        )
        self._journal.note(SWITCH, None, advice, name=name, n=n, B=B, gain=worth.gain)

    def _line(self, now: Scored, run: TrialView, forecast: EndForecast | None) -> str:
        """Say in a line of 80 columns what came here and is expected of the end, beside what was promised."""
        share = now.x / max(1, run.most_steps)
        here, end = self._promised.at(share), self._promised.end
        text = f"{percent(share)} done: {now.score:.2f}, promised {here.score:.2f}"
        if forecast is None:
            return text
        expected = f"{forecast.end.score:.2f} ({forecast.end.low:.2f}–{forecast.end.high:.2f})"
        return f"{text}; end {expected}, promised {end.score:.2f}"

    def _hold(self, forecast: EndForecast) -> None:
        """Warn where a notable shortfall is nearly certain: this is right when it comes, and comes late."""
        if forecast.probability_below >= BROKEN:
            evidence = (
                f"P(it ends {EQUIVALENCE_MARGIN:g} or more below the promised {self._promised.end.score:.3f}) is "
                f"{forecast.probability_below:.2f}"
            )
            self._warn_of(PROMISE, evidence, self._promised.remedy or "nothing else was recommended")
        elif PROMISE in self._warned:
            self._clear(PROMISE, "the promise can be kept again")

    def _warn(self, warned: Warned) -> None:
        advice = warned.advice
        if warned.rule in RUINED:
            advice += self._back
        if self._promised.remedy:
            advice += f"; {self._promised.remedy}"
        self._warn_of(warned.rule, warned.evidence, advice)

    def _store(self, forecast: EndForecast, remaining_gain: RemainingGain | None, run: TrialView) -> None:
        now = run.scores[-1]
        self._journal.add_row(
            ForecastOfFinal,
            final_id=self._promised.final.id,
            made_at=self._journal.clock.now(),
            step=now.step,
            gpu_hours=now.gpu_hours,
            score=now.score,
            end_score=forecast.end.score,
            end_low=forecast.end.low,
            end_high=forecast.end.high,
            probability_below=forecast.probability_below,
            expected_gain=None if remaining_gain is None else remaining_gain.expected,
            probability_more=None if remaining_gain is None else remaining_gain.chance,
        )

    def _warn_of(self, rule: str, evidence: str, advice: str) -> None:
        if rule in self._warned:
            return
        self._warned.add(rule)
        self._journal.note(WARNING, None, f"{rule}: {evidence}. What to do: {advice}", rule=rule, evidence=evidence)

    def _clear(self, rule: str, why: str) -> None:
        self._warned.discard(rule)
        self._journal.note(CLEARED, None, f"{rule}: {why}", rule=rule)


def _scored(points: list[Point], board: SweepState) -> list[Scored]:
    """Return the validations, each with the mean training reward since the one before."""
    metric = board.spec.training.validation.target
    validations, rewards = [], []
    for point in points:
        reward = (point.metrics or {}).get("reward", (point.metrics or {}).get("pass_rate"))
        if isinstance(reward, int | float):
            rewards.append(float(reward))
        measured = metric.of(point.score, point.score_standard_error, point.further_scores)
        if measured is not None:
            mean = sum(rewards) / len(rewards) if rewards else None
            validations.append(Scored(point.optimizer_step, measured.score, measured.standard_error, mean))
            rewards = []
    return validations


def restated(
    from_step: int, forecasts: Sequence[ForecastOfFinal], scored: Sequence[Scored], run: TrialView
) -> tuple[str, dict[str, float | bool]]:
    """Hold the end against its forecast after a tenth, beside the promise of a run that was launched unvalidated."""

    def validations(after: int, upto: int) -> int:
        return sum(after < score.x <= upto for score in scored)

    if validations(0, from_step) >= LEAST_SCORES:
        return "", {}
    later = (row for row in forecasts if row.step >= max(from_step + 1, RESTATED_SHARE * run.most_steps))
    row = next((row for row in later if validations(0, row.step) >= LEAST_SCORES), None)
    if row is None or row.step >= run.most_steps:
        return "", {}
    is_within = row.end_low <= scored[-1].score <= row.end_high
    clause = (
        f". After {percent(row.step / run.most_steps)}, by validations of its own, {row.end_score:.3f} "
        f"({row.end_low:.3f} to {row.end_high:.3f}) was expected, which {'holds' if is_within else 'does not hold'}"
    )
    return clause, {
        "restated": row.end_score,
        "restated_low": row.end_low,
        "restated_high": row.end_high,
        "restated_held": is_within,
        "restated_step": row.step,
    }


def _ending(
    promised: Promised, scored: list[Scored], run: TrialView, left_gpu_hours: float
) -> tuple[str, dict[str, float | bool]]:
    """Tell how the run ended: promised against reached, hours against the price."""
    last, best = scored[-1], max(scored, key=lambda score: score.score)
    final = promised.final
    share = last.x / max(1, run.most_steps)
    due = promised.end if share >= 1 else promised.at(share)
    is_within = due.low <= last.score <= due.high
    made = (last.x - final.from_step) / (final.update_steps - final.from_step)  # of the updates that were priced
    priced = final.promised_gpu_hours * made
    where = "" if share >= 1 else f", at update {last.x:,g} of {run.most_steps:,}"
    outcome = (
        "which holds" if is_within else "which does not hold" if last.score < due.low else "and it ended above that"
    )
    summary = (
        f"the final run ended with {last.score:.3f}{where}; promised was {due.score:.3f} ({due.low:.3f} to "
        f"{due.high:.3f}), {outcome}. It took {run.gpu_hours_spent:.3g} "
        f"GPU-hours, priced at {final.promised_gpu_hours:.3g}; {left_gpu_hours:.3g} are left of the budget"
    )
    numbers: dict[str, float | bool] = {
        "reached": last.score,
        "promised": due.score,
        "promised_low": due.low,
        "promised_high": due.high,
        "held": is_within,
        "share": share,
        "best": best.score,
        "best_step": best.x,
        "gpu_hours": run.gpu_hours_spent,
        "priced_gpu_hours": final.promised_gpu_hours,
        "priced_so_far": priced,
        "left_gpu_hours": left_gpu_hours,
    }
    return summary, numbers
