"""One configuration as a choice at one compute: what the run would be, what it is expected to score, and the odds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from planner.recommending.choosing import Chosen, choose
from planner.recommending.prospect import Prospect, interval, odds
from planner.view import Axes, Configuration


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run of a configuration would be and bring; the interval is of 90 %."""

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


class Choices:
    """Makes the choices at every compute of a prospect, each once."""

    chosen: Callable[[int], Chosen]  # what is taken at a compute, and why
    described: Callable[[int, int], Choice]  # at a compute, any configuration by its row

    def __init__(self, prospect: Prospect, seed_sd: float) -> None:
        self.prospect, self.seed_sd = prospect, seed_sd
        self.chosen, self.described = cache(partial(choose, prospect)), cache(self._described)
        self._odds = cache(partial(odds, prospect))

    def choice(self, rung: int) -> Choice:
        """Return what is taken at a compute, in full."""
        return self.described(rung, self.chosen(rung).row)

    def _described(self, rung: int, row: int) -> Choice:
        prospect, chances = self.prospect, self._odds(rung)
        configuration, facts = prospect.configurations[row], prospect.facts[row]
        steps = facts.steps(float(prospect.gpu_hours[rung]))
        # A run that goes on has its seed in its curve.
        low, high = interval(prospect.scores[rung][:, row], 0.0 if facts.seeds_seen else self.seed_sd)
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
            probability_within_002=float(chances.within_near[row]),
            expected_regret=float(chances.regret[row]),
            collapse_risk=float(prospect.risks[row]),
            status=facts.status,
            gpu_hours_spent=facts.gpu_hours_spent,
            reached_gpu_hours=facts.reached_gpu_hours,
            seeds_seen=facts.seeds_seen,
        )
