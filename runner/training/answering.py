"""How responses are drawn and scored under a recipe that interrupts those which go on for too long."""

import math
from collections.abc import Sequence
from dataclasses import replace

from budgets.errors import InputError
from planner.recipes.schema import Recipe
from runner.ports.rollouts import Interruption, Rollouts
from runner.ports.task import Problem, Scores, Task
from runner.tasks.rewards import require_judged


def interruption_of(recipe: Recipe, task: Task) -> Interruption | None:
    """Return where a task's responses are interrupted and by which tokens; None: nowhere."""
    settings, longest = recipe.interruptions, task.max_response_tokens
    if settings.earliest is None or task.closing is None:
        return None
    phrase, closed_by = (tuple(task.tokenizer.encode(text)) for text in recipe.closing(task.name))
    if task.tokenizer.end_id in phrase:
        raise InputError(
            f"recipe '{recipe.name}': interruptions.phrase has the end token of the model of task '{task.name}', which "
            "nothing could follow: take it out of the phrase"
        )
    share = settings.latest or settings.earliest
    earliest = math.ceil(settings.earliest * longest)
    latest = max(earliest, math.floor(share * longest))
    if latest + len(phrase) >= longest:
        needed = math.ceil((len(phrase) + 2) / (1 - share))
        raise InputError(
            f"recipe '{recipe.name}' interrupts responses of at most {longest} tokens after {earliest} to {latest}, "
            f"with a phrase of {len(phrase)} and no room to answer behind it: allow at least {needed} tokens "
            "(task.max_response_tokens), or set interruptions.earliest = 'none'"
        )
    return Interruption(phrase, earliest, latest, closed_by)


def scored(task: Task, problems: Sequence[Problem], rollouts: Rollouts) -> Scores:
    """Return the score of each response, where `problems` has one for each prompt; TrainingError if too many failed.

    Of an interrupted response the reward sees what follows the phrase, and the task says which answer is right there;
    a user's function sees all of it.
    """
    import torch

    asked, texts, forced, lengths = [], [], rollouts.forced, rollouts.mask.sum(dim=1).tolist()
    # Where each row's closing phrase ends; 0 where it has none.
    places = torch.arange(1, forced.shape[1] + 1)
    ends = (forced * places).amax(dim=1).tolist() if places.numel() else [0] * len(forced)
    for row, (tokens, length, end) in enumerate(zip(rollouts.tokens.tolist(), lengths, ends, strict=True)):
        problem = problems[row // rollouts.per_prompt]
        alone = task.closing if end and task.closing and task.closing.alone else None
        asked.append(replace(problem, answer=alone.answer(problem.answer)) if alone else problem)
        texts.append(task.tokenizer.decode(tokens[end if alone else 0 : length]))
    judged = task.reward.score(asked, texts)
    require_judged(judged.failed, len(texts), judged.reason)
    return judged
