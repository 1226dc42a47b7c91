"""Who goes on in a sweep that has a champion, and where the champion would end by itself."""

from dataclasses import dataclass

from planner.axes import named_configuration
from planner.champion.verdict import Verdict
from planner.percent import chance
from planner.pooling.draws import JointDraws
from planner.recommending.choosing import Choices
from planner.recommending.facts import Facts
from planner.recommending.prospect import Prospect
from planner.view import Configuration


@dataclass(frozen=True, slots=True)
class Alone:
    """Where the champion would end with all GPU-hours, had nothing gone into challengers; the interval is of 90 %."""

    gpu_hours: float
    expected_score: float
    score_low: float
    score_high: float


@dataclass(frozen=True, slots=True)
class Succession:
    """The champion, whether a challenger takes its place, and how likely the likeliest is to end higher."""

    configuration: Configuration
    switched: bool
    challenger: Configuration | None
    probability: float | None
    why: str
    alone: Alone
    bar: float | None = None  # the probability from which a challenger takes the champion's place

    @property
    def passed_over(self) -> Configuration | None:
        """The champion where a challenger goes on, else the likeliest challenger."""
        return self.configuration if self.switched else self.challenger

    @property
    def reason(self) -> str:
        """Why it goes on that goes on, behind its name."""
        if self.switched and self.probability is not None:
            champion = named_configuration(self.configuration)
            return f"{chance(self.probability)} likely to end higher than {champion}, its own cost counted"
        return self.why if self.challenger is None else "no challenger is likely to gain what it would cost now"

    @property
    def gone_on_alone(self) -> str:
        """Where the champion would have ended, in a sentence."""
        alone = self.alone
        return (
            f"Alone, with all {alone.gpu_hours:,.4g} GPU-hours, {named_configuration(self.configuration)} is expected "
            f"at {alone.expected_score:.3f} ({alone.score_low:.3f}–{alone.score_high:.3f})."
        )


@dataclass(frozen=True, slots=True)
class Decided:
    """A verdict on a champion with all its GPU-hours: what an answer has to take."""

    verdict: Verdict
    total_gpu_hours: float

    def succession(self, joint: JointDraws, facts: Facts, seed_sd: float) -> Succession:
        """Forecast the champion alone, beside what was decided."""
        prospect = Prospect.of(joint, facts, self.total_gpu_hours, octaves=(0, 0))
        own = prospect.configurations.index(self.verdict.champion)
        choice = Choices(prospect, seed_sd).described(prospect.rung(0), own)
        alone = Alone(self.total_gpu_hours, choice.expected_score, choice.score_low, choice.score_high)
        decided = self.verdict
        odds = (decided.challenger, decided.probability, decided.why)
        return Succession(decided.champion, decided.switched, *odds, alone, decided.bar)
