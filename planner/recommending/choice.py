"""One configuration as a choice at one compute: what the run would be, what it is expected to score, and the odds."""

from dataclasses import dataclass, field

from planner.recommending.equivalent import TIE, Settled, collapse_risks, settle
from planner.recommending.prospect import Odds, Prospect, Vector, interval, odds
from planner.view import Axes, Configuration


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run of a configuration would be and bring; the interval is of 90 %, for the score of a new run."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    axes: Axes
    update_steps: int
    learning_rate: float
    recipe: str
    gpu_hours: float
    expected_score: float
    score_low: float
    score_high: float
    probability_best: float
    probability_within_001: float
    probability_within_002: float
    expected_regret: float
    collapse_risk: float
    status: str
    gpu_hours_spent: float
    reached_gpu_hours: float
    seeds_seen: int

    @property
    def configuration(self) -> Configuration:
        """(n, B) with the further axes."""
        return Configuration(self.rollouts_per_prompt, self.prompts_per_batch, self.axes)


@dataclass(eq=False)
class Choices:
    """Settles choices at every compute of a prospect, each once."""

    prospect: Prospect
    seed_sd: float
    tie: float = TIE
    _settled: dict[int, Settled] = field(default_factory=dict)
    _odds: dict[int, Odds] = field(default_factory=dict)
    _intervals: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    _risks: Vector | None = None

    def settled(self, rung: int) -> Settled:
        """Return what is taken at a compute, and why."""
        if rung not in self._settled:
            self._settled[rung] = settle(self.prospect, rung, self.tie)
        return self._settled[rung]

    def choice(self, rung: int) -> Choice:
        """Return what is taken at a compute, in full."""
        return self.described(rung, self.settled(rung).row)

    def odds(self, rung: int) -> Odds:
        """Return the odds of all configurations at a compute."""
        if rung not in self._odds:
            self._odds[rung] = odds(self.prospect, rung)
        return self._odds[rung]

    def described(self, rung: int, row: int) -> Choice:
        """Return any configuration as a choice at a compute."""
        prospect, chances = self.prospect, self.odds(rung)
        configuration, facts = prospect.configurations[row], prospect.facts[row]
        steps = facts.steps(float(prospect.gpu_hours[rung]))
        low, high = self._interval(rung, row)
        return Choice(
            rollouts_per_prompt=configuration.rollouts_per_prompt,
            prompts_per_batch=configuration.prompts_per_batch,
            axes=configuration.axes,
            update_steps=steps,
            learning_rate=facts.learning_rate,
            recipe=facts.recipe,
            gpu_hours=steps * facts.gpu_hours_per_step,
            expected_score=float(chances.expected[row]),
            score_low=low,
            score_high=high,
            probability_best=float(chances.best[row]),
            probability_within_001=float(chances.within_nearly[row]),
            probability_within_002=float(chances.within_near[row]),
            expected_regret=float(chances.regret[row]),
            collapse_risk=float(self.risks[row]),
            status=facts.status,
            gpu_hours_spent=facts.gpu_hours_spent,
            reached_gpu_hours=facts.reached_gpu_hours,
            seeds_seen=facts.seeds_seen,
        )

    @property
    def risks(self) -> Vector:
        """Each configuration's risk to collapse."""
        if self._risks is None:
            self._risks = collapse_risks(self.prospect.configurations, self.prospect.facts)
        return self._risks

    def _interval(self, rung: int, row: int) -> tuple[float, float]:
        if (rung, row) not in self._intervals:
            low, high = interval(self.prospect.scores[rung][:, [row]], self.seed_sd)
            self._intervals[rung, row] = float(low[0]), float(high[0])
        return self._intervals[rung, row]
