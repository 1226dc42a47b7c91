"""How a sweep reads: its numbers, and its answer as a sentence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from budgets.hardware import SECONDS_PER_HOUR
from planner.store.schema import RequestKind
from planner.view import ScorePoint, TrialState
from rlplan.reading.row_choice import SortKey, chosen_names, ordered
from rlplan.reading.sweep_picture import Hold, Money, Picture, TrialRow
from rlplan.wording.numbers import UNKNOWN, aligned_hours, duration, interval, steps


def with_error(score: ScorePoint | None) -> str:
    """Write a score with its standard error."""
    if score is None:
        return UNKNOWN
    return f"{score.score:.3f}" + (f" ± {score.standard_error:.3f}" if score.standard_error is not None else "")


def forecast_text(trial: TrialRow) -> str:
    """Write what a trial is expected to reach; of one that failed, what it failed with."""
    if trial.state is TrialState.FAILED:
        return trial.failure_class or "error"
    forecast = trial.forecast
    return interval(forecast.mean, forecast.low, forecast.high) if forecast else UNKNOWN


def remains(money: Money) -> str:
    """Write what is left of the pilots' GPU-hours, or by how much they were passed."""
    return f"{aligned_hours(money.overrun)} too many" if money.overrun else f"{aligned_hours(money.left)} left"


def reached(trial: TrialRow) -> str:
    """Write how far a trial is, and how far the plan lets it go, unless the policy has let it go farther."""
    planned = trial.pilot_steps
    return steps(trial.step) + (f"/{steps(planned)}" if planned and planned >= trial.step else "")


def time_of(picture: Picture) -> str:
    """Say since when a sweep runs, until when at most, and who drives it."""
    so_far = duration(picture.elapsed_seconds / SECONDS_PER_HOUR)
    driver, sweep = picture.driver, picture.sweep
    if picture.abandoned:
        heard = f", last heard of {duration(driver.silent_seconds / SECONDS_PER_HOUR)} ago" if driver else ""
        return f"{sweep} has lost its driver{heard}"
    if driver and driver.alive and picture.hold is not None:
        return f"{_held(picture, picture.hold)}; {so_far} so far"
    if driver and driver.alive:
        left = picture.seconds_left
        until = f", at most {duration(left / SECONDS_PER_HOUR)} left" if left is not None else ""
        return f"{so_far} so far{until}; driven by process {driver.pid} on {driver.host}"
    if picture.at_rest and picture.status not in ("finished", "failed"):
        return f"{sweep} stopped after {so_far}"
    return f"{sweep} took {so_far}" if picture.at_rest else f"{sweep} has not begun yet"


def _held(picture: Picture, hold: Hold) -> str:
    """Say who holds a sweep since when, and what still runs."""
    stopped = hold.kind is RequestKind.STOP
    if hold.taken_at is None:
        state = "to be stopped" if stopped else "to be paused"
    else:
        state = f"{'stopping' if stopped else 'paused'} since {hold.taken_at:%H:%M:%S} UTC"
    running = sum(trial.state is TrialState.RUNNING for trial in picture.trials)
    first = f", {running} {'segment' if running == 1 else 'segments'} under way" if running else ""
    return f"{state} on request of {hold.by}{first}"


def tally(trials: Iterable[TrialRow]) -> str:
    """Count trials by state."""
    counted = [trial.state for trial in trials]
    return ", ".join(f"{counted.count(state)} {state}" for state in TrialState if state in counted)


def last_line(log: str) -> str:
    """Return the last line of a log that says something."""
    return next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "")


SORT_KEYS: dict[str, SortKey[TrialRow]] = {
    "promise": SortKey(lambda trial: trial.promise),
    "score": SortKey(lambda trial: trial.last.score if trial.last else None, largest_first=True),
    "expected": SortKey(lambda trial: trial.forecast.mean if trial.forecast else None, largest_first=True),
    "p-best": SortKey(lambda trial: trial.forecast.probability_best if trial.forecast else None, largest_first=True),
    "spent": SortKey(lambda trial: trial.gpu_hours_spent, largest_first=True),
    "step": SortKey(lambda trial: trial.step, largest_first=True),
    "n": SortKey(lambda trial: trial.rollouts_per_prompt),
    "b": SortKey(lambda trial: trial.prompts_per_batch),
    "name": SortKey(lambda trial: trial.name),
}


@dataclass(frozen=True, slots=True)
class TrialChoice:
    """What `--status`, `--sort`, `--reverse` and `--top` ask for."""

    status: str | None = None
    sort: str | None = None
    reverse: bool = False
    top: int | None = None

    def of(self, trials: Sequence[TrialRow]) -> tuple[TrialRow, ...]:
        """Return the trials that are asked for; in the order of their planning where nothing is asked for."""
        if self == ALL:
            return tuple(trials)
        states = chosen_names(self.status, "status", [state.value for state in TrialState])
        selected = [trial for trial in trials if not states or trial.state.value in states]
        return tuple(ordered(selected, self.sort or "promise", SORT_KEYS, reverse=self.reverse)[: self.top])


ALL = TrialChoice()
