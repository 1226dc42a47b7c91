"""Adopts runs from Python: what `rlplan adopt` does."""

from collections.abc import Sequence
from pathlib import Path

from rlplan.api.book import Book
from rlplan.api.sweep import Sweep
from rlplan.wording.arguments import arguments_named
from rlplan.wording.formats import database_at


def adopt(
    runs: Sequence[str | Path] | str | Path,
    *,
    rollouts_per_prompt: int | None = None,
    prompts_per_batch: int | None = None,
    learning_rate: float | None = None,
    recipe: str | None = None,
    model: str | None = None,
    gpus: int | None = None,
    gpu: str | None = None,
    settings: str | Path | None = None,
    score: Sequence[str] | str | None = None,
    percent: bool = False,
    seconds_per_step: float | None = None,
    validation_problems: int | None = None,
    validation_samples: int | None = None,
    budget: float | None = None,
    target: float | None = None,
    problems: str | Path | None = None,
    checkpoint: str | Path | None = None,
    reward: str | None = None,
    validation: str | Path | None = None,
    trainer: str | Path | None = None,
    folder: str | Path | None = None,
    config: str | Path | None = None,
    db: str | Path | None = None,
) -> Sweep | None:
    """Take runs that exist, of any trainer, as finished trials of a sweep, and return it; None where none has a curve.

    What their steps took is stored too, and counts for the prices of later plans.

    Args:
        runs: Folders with a log and settings, or logs alone.
        rollouts_per_prompt: n of all runs, where it cannot be read.
        prompts_per_batch: B of all runs, where it cannot be read.
        learning_rate: Of all runs, where it cannot be read.
        recipe: A shipped recipe or a file, of all runs.
        model: The base model of all runs, by the catalogue, or a folder with its config.json.
        gpus: GPUs of each run, where that cannot be read.
        gpu: Which GPU they ran on.
        settings: A file with settings of all runs.
        score: The series that serves as the score; one for each trainer.
        percent: Scores are percentages.
        seconds_per_step: Where no log times the steps.
        validation_problems: Problems behind each score; its error is then known.
        validation_samples: Answers to each of them.
        budget: GPU-hours in all, with those of the runs.
        target: GPU-hours of the final run.
        problems: What further trials train on: JSONL of {prompt, answer}.
        checkpoint: The base model that further trials start from.
        reward: What scores your own problems: math, exact or package.module:name.
        validation: JSONL of validation problems; else some are held out.
        trainer: Whose trainer runs further trials.
        folder: Checkpoints of further trials.
        config: A configuration file; ./rlplan.toml is read without this.
        db: The results database; by default RLPLAN_DB, else rlplan.db.

    Raises:
        InputError: Something cannot be read, or the runs do not compare; the message names what to give.
        BudgetError: The runs have taken more than the budget.
    """
    asked = dict(locals())
    from rlplan.actions.adopting import AdoptRequest  # noqa: PLC0415 (takes a second to import)
    from rlplan.actions.adopting import adopt as adopted  # noqa: PLC0415

    database = database_at(db)
    for name in ("runs", "score"):
        given = asked[name]
        asked[name] = [given] if isinstance(given, str | Path) else given and list(given)
    with arguments_named():
        found = adopted(AdoptRequest.of(asked), database)
    return None if found.sweep is None else Book(database).sweep(found.sweep)
