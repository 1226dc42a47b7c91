"""The whole trainer on a shipped task: the beginning of what `bench/it_learns.py` runs to the end."""

from pathlib import Path

from planner.recipes.schema import Recipe
from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Segment
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan


def test_the_score_rises_within_the_first_rollouts(tmp_path: Path) -> None:
    config = TrialConfig(
        task=TaskChoice(name="sum-easy"),
        recipe=Recipe(name="grpo without KL"),
        rollouts_per_prompt=16,
        prompts_per_batch=16,
        learning_rate=3e-4,
        validation=ValidationPlan(problems=128, samples=4, every_rollouts=5120),
    )
    backend = BuiltinBackend()
    backend.start(config, tmp_path)
    scored = [point for point in backend.advance(Segment(20)) if point.score is not None]
    backend.close()
    first, last = scored[0], scored[-1]
    assert (first.rollouts, last.rollouts) == (0, 5120)
    assert 0.3 < first.score < 0.5
    assert last.score - first.score > 4 * last.score_standard_error
