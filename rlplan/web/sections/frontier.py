"""The frontier: the picture, what it says in sentences, and what to take at other budgets."""

from collections.abc import Iterator
from typing import Any

from planner.axes import said
from planner.recommending.answer import Answer
from rlplan.charts.frontier import frontier_chart
from rlplan.reading.story import Beliefs, Story


def context(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    answer = beliefs.recommended.answer if beliefs is not None and beliefs.recommended is not None else None
    return {
        "chart": frontier_chart(story, beliefs),
        "sentences": list(_sentences(answer)) if answer is not None else [],
        "budgets": answer.budgets if answer is not None else (),
        "with_axes": answer is not None and any(each.choice and each.choice.axes for each in answer.budgets),
        "said": said,
    }


def _sentences(answer: Answer) -> Iterator[str]:
    yield answer.frontier.rollouts_per_prompt.sentence
    yield answer.frontier.rollouts_per_step.sentence
    enough = answer.pareto.enough
    if enough is not None:
        yield (
            f"{enough.gpu_hours:.3g} GPU-hours ({enough.gpu_hours / answer.target_gpu_hours:.0%} of the final run) are "
            f"expected to reach {enough.expected_score:.3f}, within 0.02 of it, with n={enough.rollouts_per_prompt}, "
            f"B={enough.prompts_per_batch}"
        )
