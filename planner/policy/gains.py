"""What a switch from the champion to a challenger would gain, and whether its start gives alarm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

from planner.percent import percent
from planner.policy.calibration import Calibration, Reading, calibration, read_curve, scale
from planner.policy.champion import rate_octaves
from planner.rules import FAR_OCTAVES, LOOK_SHARE
from planner.view import (
    Champion,
    Configuration,
    ScorePoint,
    TrialState,
    TrialView,
    View,
    by_configuration,
    has_curve,
    octaves_apart,
)

NORMAL = NormalDist()
ALARM_GAIN = 0.03  # of what is lacking: a champion that has gained less at its first look gives alarm
LEAST_SCORES = 3  # after the start, that a first look rests on
FLAT_ERRORS = 2.0  # standard errors of the first score, within which a curve has not moved
LEAST_GAIN = 0.003  # of score: less is no movement, where no standard error is known
LEAST_SD = 1e-9


@dataclass(frozen=True, slots=True)
class Gain:
    """What a switch to a challenger is believed to gain, less what its hours and the champion's have cost."""

    trial: TrialView
    mean: float
    sd: float

    @property
    def probability(self) -> float:
        """P(it gains anything)."""
        return NORMAL.cdf(self.mean / max(self.sd, LEAST_SD))


@dataclass(frozen=True, eq=False)
class Standing:
    """A view as the champion's rules look at it; `trial` is the champion's own."""

    view: View
    terms: Champion
    trial: TrialView
    calibration: Calibration = field(default_factory=calibration)

    @property
    def champion(self) -> Configuration:
        """The configuration of the champion."""
        return self.trial.configuration

    @property
    def total(self) -> float:
        """All GPU-hours."""
        return self.terms.total_gpu_hours

    @cached_property
    def challengers(self) -> list[TrialView]:
        """Trials of others that have a score after their start, of each configuration the longest."""
        runs = by_configuration(trial for trial in self.view.trials.values() if has_curve(trial))
        longest = [max(trials, key=lambda trial: (trial.step, -trial.trial)) for trials in runs.values()]
        return [trial for trial in longest if trial.configuration != self.champion]

    def spent_beside(self, trial: TrialView) -> float:
        """Return the GPU-hours of all trials but one."""
        return math.fsum(other.gpu_hours_spent for other in self.view.trials.values() if other.trial != trial.trial)

    @property
    def challenger_gpu_hours(self) -> float:
        """What the others have taken."""
        return self.spent_beside(self.trial)

    @cached_property
    def reading(self) -> Reading:
        """The champion's curve as far as it has come."""
        return self.read(self.trial)

    @cached_property
    def rise(self) -> float:
        """What an e-fold of GPU-hours brings the champion's end: its own slope, at least that of other families."""
        return max(self.reading.slope, self.calibration.rise * scale(self.reading.line))

    def read(self, trial: TrialView, gpu_hours: float = math.inf) -> Reading:
        """Read a trial's curve, up to some GPU-hours."""
        return read_curve(scores_until(trial, gpu_hours), self.total)

    @cached_property
    def alarm(self) -> str | None:
        """What is wrong with the champion's start, in words that follow its name; None while all is well."""
        if self.trial.state is TrialState.FAILED:
            return "has failed"
        first = scores_until(self.trial, self.look_gpu_hours)
        if len(first) < 2:
            return None
        base, level = first[0].score, read_curve(first, self.total).level
        lacking = 1 - base
        if level < base - max(ALARM_GAIN * lacking, FLAT_ERRORS * (first[0].standard_error or 0.0)):
            return f"fell from {base:.2f} to {level:.2f}"
        if level - base <= ALARM_GAIN * lacking:
            gained = f"gained {max(0.0, level - base):.3f} of the {lacking:.2f} that it lacks"
            return f"{gained} in {percent(first[-1].gpu_hours / self.total)} of the GPU-hours"
        return None

    @property
    def look_gpu_hours(self) -> float:
        """How far the first look goes: a twentieth of all GPU-hours, or a tenth where that holds too few scores."""
        look = LOOK_SHARE * self.total
        scores = sum(0 < point.gpu_hours <= look * (1 + 1e-9) for point in self.trial.scores)
        return look if scores >= LEAST_SCORES else 2 * look

    @property
    def is_dead(self) -> bool:
        """Whether the champion has fallen or not moved at all: its rate is rather too high than too low."""
        first = scores_until(self.trial, self.look_gpu_hours)
        error = first[0].standard_error or 0.0
        level = read_curve(first, self.total).level
        return level <= first[0].score + max(LEAST_GAIN, FLAT_ERRORS * error / math.sqrt(len(first)))

    @cached_property
    def usual(self) -> Configuration | None:
        """The usual choice of the champion's axes, where that is far from its sizes."""
        alike = [usual for usual in self.terms.usual if usual.axes == self.champion.axes]
        return next((usual for usual in alike if octaves_apart(self.champion, usual) > FAR_OCTAVES), None)

    def gain(self, challenger: TrialView) -> Gain:
        """Compare a challenger's curve with the champion's at the challenger's GPU-hours.

        One without a curve counts as level so far: sizes and learning rates then speak alone.
        """
        reached = challenger.scores[-1].gpu_hours if has_curve(challenger) else 0.0
        champion = self.read(self.trial, reached) if reached else self.reading
        other = self.read(challenger) if reached else champion
        width, look = scale(champion.line), self.calibration.at(reached / self.total)
        n, B, rate = self._octaves(challenger.configuration)
        difference = (
            look.level * (other.level - champion.level) / width + look.line * (other.line - champion.line) / width
        )
        difference += look.batch_octave * B + look.rollout_octave * n + look.rate_octave * rate
        switched, stayed = self.total - self.spent_beside(challenger), self.total - self.challenger_gpu_hours
        sunk = self.rise * math.log(switched / stayed) if switched > 0 and stayed > 0 else 0.0
        return Gain(challenger, width * difference + sunk, width * look.sd)

    def untried(self, configuration: Configuration) -> tuple[float, float]:
        """Return mean and standard deviation of what a configuration ends above the champion, before any look."""
        width = scale(self.reading.line)
        mean, sd = self.calibration.without_look(self.champion, configuration)
        return width * mean, width * sd

    def _octaves(self, challenger: Configuration) -> tuple[float, float, float]:
        """Return the octaves of n and B above the champion, and how much farther from the rule its rate is."""
        n = math.log2(challenger.rollouts_per_prompt / self.champion.rollouts_per_prompt)
        B = math.log2(challenger.prompts_per_batch / self.champion.prompts_per_batch)
        champion, other = rate_octaves(self.champion.axes), rate_octaves(challenger.axes)
        farther = 0.0 if champion is None or other is None else abs(other) - abs(champion)
        # A start that is dead speaks against the rule itself.
        return n, B, min(0.0, farther) if self.alarm and self.is_dead else farther


def scores_until(trial: TrialView, gpu_hours: float) -> Sequence[ScorePoint]:
    """Return a trial's scores up to some GPU-hours, at least the first one after its start."""
    upto = [point for point in trial.scores if point.gpu_hours <= gpu_hours * (1 + 1e-9)]
    return upto if len(upto) > 1 else trial.scores[:2]
