"""The score: the mean over fixed problems and several samples of each, with its standard error.

Best@k and worst@k stand beside it: see planner.metrics.
"""

from dataclasses import dataclass

from planner.metrics import further_scores, mean_over
from runner.ports.engine import RolloutEngine
from runner.ports.rollouts import Sampling
from runner.ports.task import Task
from runner.ports.trial import ValidationPlan
from runner.training.collecting import encoded, responses
from runner.training.seeds import derive


@dataclass(frozen=True, slots=True)
class Validation:
    """Scores of one validation; the standard error treats the problems as the sample that they are."""

    mean: float
    standard_error: float
    best: float
    worst: float
    truncated_share: float
    response_tokens: float
    rollouts: int
    further: dict[str, tuple[float, float]]  # best@k and worst@k of several k, each with its standard error

    def metrics(self) -> dict[str, float]:
        """Return what stands beside the score."""
        return {
            "validation_best": self.best,
            "validation_worst": self.worst,
            "validation_truncated_share": self.truncated_share,
            "validation_response_tokens": self.response_tokens,
        }


def validate(engine: RolloutEngine, task: Task, plan: ValidationPlan, seed: int, step: int) -> Validation:
    """Score the present weights on the first problems of the task's validation set."""
    problems = list(task.validation[: plan.problems])
    samples = plan.samples
    sampling = Sampling(task.max_response_tokens, plan.temperature)
    prompts = [encoded(task, problem) for problem in problems]
    rollouts = engine.generate(prompts, samples, sampling, derive(seed, "validation", step))
    scored = task.reward.score([p for p in problems for _ in range(samples)], responses(rollouts, task))
    groups = [scored.values[i * samples : (i + 1) * samples] for i in range(len(problems))]
    mean, error = mean_over([sum(group) / samples for group in groups])
    return Validation(
        mean=mean,
        standard_error=error,
        best=sum(map(max, groups)) / len(groups),
        worst=sum(map(min, groups)) / len(groups),
        truncated_share=float(rollouts.truncated.float().mean()),
        response_tokens=float(rollouts.mask.sum()) / rollouts.count,
        rollouts=rollouts.count,
        further=further_scores(groups),
    )
