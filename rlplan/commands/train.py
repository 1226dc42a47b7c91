"""`rlplan train`: train one model with GRPO, as a sweep of one trial."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rlplan.requests import options
from rlplan.requests.completing import recipes, tasks
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def train(
    task: Annotated[
        str | None,
        typer.Option(
            metavar="<name>|<file>", help="An embedded task, or a JSONL file of problems.", autocompletion=tasks
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="A recipe, such as grpo, dapo or scalerl, or a .toml file.", autocompletion=recipes),
    ] = None,
    rollouts_per_prompt: Annotated[
        int | None, options.whole("--rollouts-per-prompt", "Responses to each prompt; 16.", short="-n")
    ] = None,
    prompts_per_batch: Annotated[
        int | None, options.whole("--prompts-per-batch", "Prompts of an update; 32.", short="-B")
    ] = None,
    growth: Annotated[
        str | None, typer.Option(metavar="<factor>x", help="Let the batch grow to B by a factor, such as 4x.")
    ] = None,
    steps: Annotated[int | None, options.whole("--steps", "Update steps; 100.")] = None,
    learning_rate: Annotated[
        float | None, options.plain("--learning-rate", "Otherwise the configuration's, scaled with √(n·B).")
    ] = None,
    warmup: Annotated[int | None, options.whole("--warmup", "Update steps of warm-up; else the recipe's.")] = None,
    temperature: Annotated[float | None, options.plain("--temperature", "Of the sampling; 1.")] = None,
    seed: Annotated[int | None, options.whole("--seed", "Decides every random number; 0.")] = None,
    model: options.ModelOption = None,
    reward: options.RewardOption = None,
    response_tokens: Annotated[int | None, options.whole("--response-tokens", "Most tokens of a response.")] = None,
    validation: options.ValidationOption = None,
    problems: Annotated[int | None, options.whole("--problems", "Validation problems.")] = None,
    samples: Annotated[int | None, options.whole("--samples", "Answers to each; the score is their mean.")] = None,
    validate_every: Annotated[
        int | None,
        options.whole("--validate-every", "Rollouts between validations; about 20 validations.", metavar="<rollouts>"),
    ] = None,
    engine: options.EngineOption = None,
    device: options.DeviceOption = None,
    threads: Annotated[int | None, options.whole("--threads", "CPU threads.")] = None,
    weights: options.WeightsOption = None,
    micro_batch_tokens: options.MicroBatchOption = None,
    compile: Annotated[bool, typer.Option("--compile", help="Compile the decoder; worth it for long runs.")] = False,
    checkpoint_every: Annotated[
        int | None,
        options.whole("--checkpoint-every", "Update steps between checkpoints; at each validation.", metavar="<steps>"),
    ] = None,
    budget: Annotated[
        float | None, options.money("--budget", "Most GPU-hours that it may take; else its price's upper end.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="<folder>", help="Checkpoints and logs; else beside the database.")
    ] = None,
    config: options.ConfigOption = None,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Train a model with GRPO, as a sweep of one trial; Ctrl-C saves the state, `rlplan resume` goes on.

    Example: rlplan train --task sum-easy --recipe grpo -n 16 -B 32 --steps 100
    """
    asked = {name: value for name, value in locals().items() if value is not None}
    from rlplan.actions.training import TrainRequest  # noqa: PLC0415
    from rlplan.actions.training import train as run  # noqa: PLC0415
    from rlplan.live.sweep_running import followed  # noqa: PLC0415
    from rlplan.printing.train_output import print_trained  # noqa: PLC0415

    return print_trained(followed(partial(run, TrainRequest.of(asked), db), db), db, format)
