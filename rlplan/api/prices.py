"""Prices from Python: what `rlplan price` answers."""

from pathlib import Path
from typing import Any

from rlplan.api.wording import arguments_named
from rlplan.wording.formats import database_at


def price(
    rollouts_per_prompt: int | None = None,
    prompts_per_batch: int | None = None,
    *,
    model: str | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    response_tokens: int | None = None,
    mean_response_tokens: float | None = None,
    from_log: str | Path | None = None,
    prompt_tokens: float | None = None,
    recipe: str | None = None,
    trainer: str | None = None,
    difficulty: str | None = None,
    task: str | None = None,
    config: str | Path | None = None,
    db: str | Path | None = None,
) -> dict[str, Any]:
    """Price a step of one configuration: seconds and GPU-hours with 90 % intervals, by phase, and possible changes.

    The arguments are the flags of `rlplan price`; what is left out is taken from `./rlplan.toml`, if there is one, and
    else from the defaults.

    Args:
        rollouts_per_prompt: By default that of the usual choice, 8.
        prompts_per_batch: By default that of the usual choice, 64.
        model: A model of the catalogue, or a path to a config.json.
        gpu: A GPU of the catalogue, or one that the configuration file describes.
        gpus: How many GPUs the run has.
        response_tokens: Most tokens of a response.
        mean_response_tokens: Mean tokens of a response, what a price depends on most.
        from_log: A trainer's log of such a run, whose mean response length counts.
        prompt_tokens: Mean tokens of a prompt.
        recipe: A recipe, such as grpo or scalerl, or a path to a .toml file.
        trainer: Whose trainer, such as verl: how fast it is was measured.
        difficulty: easy, medium, hard or mixed problems.
        task: An embedded task, on this machine's CPU.
        config: A configuration file.
        db: The results database, whose measured steps count; by default RLPLAN_DB, else rlplan.db.

    Returns:
        What `rlplan price --format json` prints.

    Raises:
        InputError: What is given is not allowed, not known, or does not fit the hardware.

    Example:
        >>> rlplan.price(16, 128, model="qwen3-8b", gpu="h100", gpus=64)["seconds_per_step"]["median"] > 0
        True
    """
    asked = dict(locals())
    from rlplan.actions.configuring import flagged, load_configuration, with_log  # noqa: PLC0415
    from rlplan.actions.pricing import price_one  # noqa: PLC0415
    from rlplan.reading.price_data import price_data  # noqa: PLC0415

    with arguments_named():
        flags = {**with_log(flagged(asked), from_log), "trainer.name": ("trainer", trainer)}
        resolved = load_configuration(None if config is None else Path(config), task, flags)
        priced = price_one(resolved, rollouts_per_prompt, prompts_per_batch, database_at(db))
    return price_data(priced.price, priced.changes, priced.assumptions, priced.dollars)


def forget_prices(run: str | Path, *, db: str | Path | None = None) -> int:
    """Take back what an adopted run, or a sweep, taught of prices: its measured costs are removed, its curve stays.

    Args:
        run: The path of an adopted run, or its name; or a sweep's name, such as sweep-1.
        db: The results database; by default RLPLAN_DB, else rlplan.db.

    Returns:
        How many records were removed.

    Raises:
        NotFoundError: Nothing was measured of it; the message names what was.
        InputError: The name is that of several runs.
    """
    from rlplan.actions.calibrating import forget_prices as forget  # noqa: PLC0415

    with arguments_named():
        return forget(str(run), database_at(db)).records
