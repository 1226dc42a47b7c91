"""`rlplan train`: train one model with GRPO, and keep its curve."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands.completing import recipes, tasks
from rlplan.commands.options import (
    DeviceOption,
    EngineOption,
    FormatOption,
    MicroBatchOption,
    ModelOption,
    RewardOption,
    ValidationOption,
    WeightsOption,
    number,
)
from rlplan.wording.formats import Format


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
        str | None, typer.Option("--rollouts-per-prompt", "-n", metavar="<int>", help="Responses to each prompt; 16.")
    ] = None,
    prompts_per_batch: Annotated[
        str | None, typer.Option("--prompts-per-batch", "-B", metavar="<int>", help="Prompts of an update; 32.")
    ] = None,
    growth: Annotated[
        str | None, typer.Option(metavar="<factor>x", help="Let the batch grow to B by a factor, such as 4x.")
    ] = None,
    steps: Annotated[str | None, typer.Option(metavar="<int>", help="Update steps; 100.")] = None,
    learning_rate: Annotated[
        str | None, typer.Option(metavar="<float>", help="Otherwise the configuration's, scaled with √(n·B).")
    ] = None,
    warmup: Annotated[
        str | None, typer.Option(metavar="<int>", help="Update steps of warm-up; else the recipe's.")
    ] = None,
    temperature: Annotated[str | None, typer.Option(metavar="<float>", help="Of the sampling; 1.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="<int>", help="Decides every random number; 0.")] = None,
    model: ModelOption = None,
    reward: RewardOption = None,
    response_tokens: Annotated[str | None, typer.Option(metavar="<int>", help="Most tokens of a response.")] = None,
    validation: ValidationOption = None,
    problems: Annotated[str | None, typer.Option(metavar="<int>", help="Validation problems.")] = None,
    samples: Annotated[
        str | None, typer.Option(metavar="<int>", help="Answers to each; the score is their mean.")
    ] = None,
    validate_every: Annotated[
        str | None, typer.Option(metavar="<rollouts>", help="Rollouts between validations; about 20 validations.")
    ] = None,
    engine: EngineOption = None,
    device: DeviceOption = None,
    threads: Annotated[str | None, typer.Option(metavar="<int>", help="CPU threads.")] = None,
    weights: WeightsOption = None,
    micro_batch_tokens: MicroBatchOption = None,
    split: Annotated[
        bool,
        typer.Option("--split", help="Generator and trainer as two Ray actors (recipes with staleness)."),
    ] = False,
    compile: Annotated[bool, typer.Option("--compile", help="Compile the decoder; worth it for long runs.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="<folder>", help="The run's folder; one in runs/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    from_pilot: Annotated[
        Path | None, typer.Option(metavar="<folder>", help="Go on from a sweep's trial, whose folder stays as it is.")
    ] = None,
    checkpoint_every: Annotated[
        str | None, typer.Option(metavar="<steps>", help="Update steps between checkpoints; at each validation.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A configuration file; ./rlplan.toml is read without this.")
    ] = None,
    format: FormatOption = Format.TABLE,
) -> int:
    """Train a model with GRPO and keep the learning curve; Ctrl-C saves it, --resume goes on.

    Example: rlplan train --task sum-easy --recipe grpo -n 16 -B 32 --steps 100
    """
    from rlplan.actions.train_request import TrainRequest  # noqa: PLC0415
    from rlplan.actions.train_signals import Interrupts  # noqa: PLC0415
    from rlplan.actions.training import train as run  # noqa: PLC0415
    from rlplan.live.train_display import choose_display  # noqa: PLC0415
    from rlplan.printing.train_output import print_trained  # noqa: PLC0415

    request = TrainRequest(
        task=task,
        model=model,
        reward=reward,
        validation=validation,
        recipe=recipe,
        rollouts_per_prompt=number(rollouts_per_prompt),
        prompts_per_batch=number(prompts_per_batch),
        growth=growth,
        steps=number(steps),
        learning_rate=number(learning_rate),
        seed=number(seed),
        temperature=number(temperature),
        response_tokens=number(response_tokens),
        warmup=number(warmup),
        validate_every=number(validate_every),
        problems=number(problems),
        samples=number(samples),
        engine=engine,
        device=device,
        threads=number(threads),
        weights=weights,
        micro_batch_tokens=micro_batch_tokens,
        split=split or None,
        compile=compile or None,
        checkpoint_every=number(checkpoint_every),
        out=out,
        resume=resume,
        from_pilot=from_pilot,
        config=config,
    )
    display = choose_display()
    try:
        with Interrupts() as interrupts:
            trained = run(request, display=display, interrupts=interrupts)
    finally:
        display.close()
    return print_trained(trained, format)
