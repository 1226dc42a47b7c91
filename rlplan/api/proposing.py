"""Makes plans from Python: `rlplan propose` with arguments for flags, and plans that are stored already."""

from collections.abc import Sequence
from pathlib import Path

from rlplan.api.place import database_at
from rlplan.api.plan import Plan
from rlplan.api.words import arguments_named


def propose(
    budget: float | None = None,
    *,
    model: str | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    gpus_per_trial: int | None = None,
    response_tokens: int | None = None,
    recipe: str | None = None,
    recipes: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    difficulty: str | None = None,
    pass_rate: float | None = None,
    pass_rates_file: str | Path | None = None,
    task: str | None = None,
    config: str | Path | None = None,
    db: str | Path | None = None,
) -> Plan:
    """Price and rank every allocation for a budget of GPU-hours, split pilots and final run, and store the plan.

    The arguments are the flags of `rlplan propose`; what is left out is taken from `./rlplan.toml`, if there is one,
    and else from the defaults.

    Args:
        budget: GPU-hours for pilots and final run together.
        model: A model of the catalogue, or a path to a config.json.
        gpu: A GPU of the catalogue, or one that the configuration file describes.
        gpus: How many GPUs there are.
        gpus_per_trial: How many GPUs one run gets.
        response_tokens: Most tokens of a response.
        recipe: A recipe, such as grpo or scalerl, or a path to a .toml file.
        recipes: Recipes to compare with each other.
        models: Base models to compare with each other.
        difficulty: easy, medium, hard or mixed problems.
        pass_rate: Mean pass rate of the base model.
        pass_rates_file: A file with one pass rate per prompt.
        task: An embedded task, on this machine's CPU.
        config: A configuration file.
        db: The results database: a path, or an SQLAlchemy URL; by default RLPLAN_DB, else rlplan.db.

    Returns:
        The plan, with the name that it is stored under.

    Raises:
        InputError: What is given is not allowed, not known, or does not fit the hardware.
        BudgetError: The GPU-hours do not suffice for a comparison.

    Example:
        >>> plan = rlplan.propose(budget=5000, model="qwen3-8b", gpu="h100", gpus=64)
        >>> plan.name
        'plan-1'
        >>> plan.pilot_gpu_hours + plan.final_gpu_hours <= 5000
        True
    """
    asked = dict(locals())
    from rlplan.actions.proposing import flagged, load_configuration, make_plan  # noqa: PLC0415
    from rlplan.reading.plan_data import plan_data  # noqa: PLC0415 (half the time that a cold import takes)

    database = database_at(db)
    with arguments_named():
        file = None if config is None else Path(config)
        stored = make_plan(load_configuration(file, task, flagged(asked)), database)
    document = plan_data(stored.name, stored.proposal, stored.assumptions)
    return Plan(database, document, tuple(stored.notices))
