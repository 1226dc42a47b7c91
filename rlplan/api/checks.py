"""Checks from Python: what `rlplan check` answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlplan.wording.arguments import arguments_named
from rlplan.wording.formats import database_at


def check(
    files: str | Path | Sequence[str | Path],
    *,
    rollouts_per_prompt: int | None = None,
    prompts_per_batch: int | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    model: str | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    response_tokens: int | None = None,
    mean_response_tokens: float | None = None,
    from_log: str | Path | None = None,
    prompt_set_size: int | None = None,
    validation_problems: int | None = None,
    pass_rate: float | None = None,
    pass_rates_file: str | Path | None = None,
    difficulty: str | None = None,
    budget: float | None = None,
    config: str | Path | None = None,
    db: str | Path | None = None,
) -> dict[str, Any]:
    """Judge the run that a script would start: whether it fits, what it costs, what is wrong, and what would help.

    The arguments are the flags of `rlplan check`; each is said in place of the script.

    Args:
        files: A script or a file of settings, or several that belong together.
        rollouts_per_prompt: n, where the script does not say it.
        prompts_per_batch: B, where the script does not say it.
        steps: How many batches the run has.
        learning_rate: The learning rate.
        model: A model of the catalogue, or a path to a config.json.
        gpu: A GPU of the catalogue; h100 without it.
        gpus: How many GPUs the run has.
        response_tokens: Most tokens of a response.
        mean_response_tokens: Mean tokens of a response, what a price depends on most.
        from_log: A trainer's log of such a run, whose mean response length counts.
        prompt_set_size: How many prompts there are to train on.
        validation_problems: How many problems a validation has.
        pass_rate: Mean pass rate of the base model.
        pass_rates_file: A file with one pass rate per prompt.
        difficulty: easy, medium, hard or mixed problems.
        budget: GPU-hours: what the script would reach with them.
        config: A configuration file.
        db: The results database, whose measured steps count; by default RLPLAN_DB, else rlplan.db.

    Returns:
        What `rlplan check --format json` prints, without what --fix wrote.

    Raises:
        InputError: What is given is not allowed, or something that is needed is neither in the script nor given.
        NotFoundError: There is no such file.
    """
    asked = {name: value for name, value in locals().items() if name not in ("files", "budget", "db")}
    from rlplan.actions.checking import check_script  # noqa: PLC0415
    from rlplan.reading.check_data import check_data  # noqa: PLC0415

    paths = [Path(each) for each in ([files] if isinstance(files, str | Path) else files)]
    with arguments_named():
        found = check_script(paths, asked, database_at(db), budget=budget)
    return check_data(found.files, found.facts, found.checked, found.assumptions, found.guessed)
