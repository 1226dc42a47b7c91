"""What a trainer logs, judged as it comes: warnings, and how far the run is at each validation."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any

from budgets.hardware import SECONDS_PER_HOUR
from planner.logs.alarms import Scored, UpdateWatch, Warned, fall
from planner.logs.series import choose_score, matching, ours_of
from planner.logs.trainers import WHOLE_STEP, load_trainer
from planner.percent import percent
from planner.scripts.records import Progress, Step, progress_of
from rlplan.wording.numbers import duration

EVERY = 20  # steps, at which the progress of a run without validations is said


class RunWatch:
    """Follows one run; what it says goes to `say`.

    Args:
        trainer: Whose names the metrics have, such as "verl".
        gpus: How many the run has, for what it costs.
        end: Its last step, where that is known from the beginning.
        say: Takes each line.
        clock: Seconds, for steps that the trainer does not time.
    """

    def __init__(
        self,
        trainer: str,
        *,
        gpus: int | None = None,
        end: int | None = None,
        say: Callable[[str], None] = print,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.end = end
        self._trainer, self._gpus, self._say, self._clock = load_trainer(trainer), gpus, say, clock
        self._updates, self._counts = UpdateWatch(), Counter[str]()
        self._steps: list[Step] = []
        self._scored: list[Scored] = []
        self._rewards: list[float] = []  # since the last validation
        self._fell = False
        self._at = clock()

    def see(self, step: int, metrics: Mapping[str, Any]) -> Warned | None:
        """Take up what is logged of a step, in one part or several; return what is wrong with the run."""
        values = {name: float(value) for name, value in metrics.items() if isinstance(value, Real)}
        ours, seconds = ours_of(self._trainer, values)
        self._counts.update(name for pattern in self._trainer.validation for name in matching(pattern, values))
        choice = choose_score(self._trainer, self._counts)
        score = values.get(choice.series[0]) if choice is not None else None
        self._add(step, score, ours, seconds)
        warned = self._updates.see(step, ours) if "reward" in ours or "loss" in ours else None
        if score is not None:
            reward = sum(self._rewards) / len(self._rewards) if self._rewards else None
            self._scored, self._rewards = [*self._scored, Scored(step, score, None, reward)], []
            if (found := fall(self._scored)) and not self._fell:
                warned = found
            self._fell = found is not None
        if warned is not None:
            self._say(f"rlplan WARNING ({warned.rule}): {warned.evidence}. {warned.advice}.")
        if score is not None or (ours and not self._scored and step % EVERY == 0):
            progress = progress_of(self._steps, self.end, self._gpus)
            self._say("\n".join(f"rlplan  {line}" for line in (lines_of(progress) if progress else [])))
        return warned

    def _add(self, step: int, score: float | None, ours: Mapping[str, float], seconds: Mapping[str, float]) -> None:
        """Put what is said of a step together."""
        if "reward" in ours:
            self._rewards.append(ours["reward"])
        last = self._steps[-1] if self._steps else None
        if last is not None and last.step == step:
            merged = {**last.values, **ours}
            latest = score if score is not None else last.score
            self._steps[-1] = Step(step, latest, {**last.seconds, **seconds}, last.took, merged)
            return
        now = self._clock()
        took = seconds.get(WHOLE_STEP, now - self._at)
        self._at = now
        self._steps.append(Step(step, score, seconds, took, ours))


def lines_of(progress: Progress) -> Iterator[str]:
    """Yield the best and the newest score, time, cost and waste, as far as they are known."""
    if progress.best and progress.now:
        (best, score), (now, last) = progress.best, progress.now
        yield f"Best   {score:.3f} at step {best:,}" + (f"; now {last:.3f} at step {now:,}" if now != best else ", now")
    if progress.seconds_per_step is not None:
        pace, left = f"a step takes {duration(progress.seconds_per_step / SECONDS_PER_HOUR)}", progress.seconds_left
        ends = "" if left is None else f" of {progress.end:,}, {duration(left / SECONDS_PER_HOUR)} left"
        yield f"Time   step {progress.step:,}{ends}; {pace}"
    if progress.gpu_hours is not None:
        used, whole = (
            hours and f"{hours:,.3g} GPU-hours" + (f" (${price * hours:,.0f})" if price else "")
            for price, hours in ((progress.dollars_per_gpu_hour, amount) for amount in progress.gpu_hours)
        )
        yield f"Cost   {used} so far" + (f", {whole} at its end" if whole else "")
    waste = {"of the newest groups are dead": progress.dead_groups, "of the responses cut off": progress.cut_off}
    if shares := [f"{percent(share)} {what}" for what, share in waste.items() if share is not None]:
        yield f"Waste  {', '.join(shares)}"
