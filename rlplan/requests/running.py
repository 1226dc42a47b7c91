"""What is asked of the commands that run something: a sweep, its final run, one run alone."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from rlplan.requests import options
from rlplan.requests.completing import plans_and_sweeps, recipes, tasks, trials
from rlplan.requests.request import StoredRequest

OF_TRAINING = ("trainer", "problems", "model", "reward", "validation", "approximate", "simulation")


@dataclass(frozen=True)
class SweepRequest(StoredRequest):
    """Run the pilots of a plan and recommend an allocation; Ctrl-C saves the state, `rlplan resume` goes on.

    Example: rlplan sweep --task sum-easy --budget 0.03
    """

    EXPLAINS = False

    plan: options.PlanArgument = None  # in Python a Plan too
    _: KW_ONLY
    task: Annotated[
        str | None,
        typer.Option(
            help="Propose for an embedded task on this machine's CPU first, then run that.", autocompletion=tasks
        ),
    ] = None
    budget: Annotated[float | None, options.money("--budget", "Propose for these GPU-hours first, then run that.")] = (
        None
    )
    recipes: options.RecipesOption = None
    models: options.ModelsOption = None
    pilot_fraction: options.PilotFractionOption = None
    pilot_gpus: options.PilotGpusOption = None
    config: options.ConfigOption = None
    policy: options.PolicyOption = "rlplan"
    search: Annotated[
        str | None,
        typer.Option(
            metavar="tpe|gp|qmc|none",
            help="Which of Optuna's samplers names cells without a pilot; none: the policy itself.",
        ),
    ] = None
    seed: options.SeedOption = 0
    workers: options.WorkersOption = None
    ray_address: options.RayAddressOption = None
    folder: Annotated[
        Path | None, typer.Option(metavar="<folder>", help="Checkpoints and logs; on a cluster, shared storage.")
    ] = None
    storage: Annotated[
        str | None,
        typer.Option(metavar="<url>", help="A copy of each trial's checkpoints and points, such as s3://bucket/path."),
    ] = None
    learn_from: options.LearnFromOption = None
    retries: Annotated[int, options.whole("--retries", "Times in a row that a lost trial is tried again.")] = 3
    problems: options.ProblemsOption = None
    model: options.ModelOption = None
    reward: options.RewardOption = None
    validation: options.ValidationOption = None
    engine: options.EngineOption = None
    device: options.DeviceOption = None
    weights: options.WeightsOption = None
    micro_batch_tokens: options.MicroBatchOption = None
    trainer: options.TrainerOption = None
    script: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="<script>", help="What starts the trainer already: what the plan leaves open is kept."
        ),
    ] = None
    approximate: options.ApproximateOption = False
    rehearse: options.RehearseOption = False
    slurm: options.SlurmOption = False
    sbatch: options.SbatchOption = None
    dry_run: options.DryRunOption = False
    further: dict[str, tuple[str, Any]] | None = None  # of the configuration, by key: who says it, and the value
    simulation: dict[str, Any] | None = None  # a world to train in instead of a trainer
    only: int | None = None  # the rank of the plan's one row that is trained, in full and without pilots


@dataclass(frozen=True)
class ResumeRequest(StoredRequest):
    """Go on with a sweep after any interruption or pause: the plan minus what is finished. Failed trials stay failed.

    Example: rlplan resume sweep-1
    """

    EXPLAINS = False

    sweep: options.SweepArgument = None
    _: KW_ONLY
    accept_changes: options.AcceptOption = False
    folder: options.OwnFolderOption = None
    ray_address: options.RayAddressOption = None
    workers: options.WorkersOption = None
    wait: Annotated[float, options.plain("--wait", "Seconds to wait for another driver to let go of it.")] = 0.0
    slurm: options.SlurmOption = False
    sbatch: options.SbatchOption = None
    dry_run: options.JobOnlyOption = False


@dataclass(frozen=True)
class RetryRequest(StoredRequest):
    """Run the failed trials of a sweep again, and go on with the rest of it.

    Example: rlplan retry sweep-1 --trial n512-B32-s0
    """

    ANSWERED, EXPLAINS = "resume", False

    sweep: options.SweepArgument = None
    _: KW_ONLY
    trial: Annotated[
        list[str] | None,
        typer.Option(metavar="<name>", help="A failed trial; may be repeated. All without it.", autocompletion=trials),
    ] = None
    accept_changes: options.AcceptOption = False
    folder: options.OwnFolderOption = None
    ray_address: options.RayAddressOption = None
    workers: options.WorkersOption = None
    slurm: options.SlurmOption = False
    sbatch: options.SbatchOption = None
    dry_run: options.JobOnlyOption = False


@dataclass(frozen=True)
class PauseRequest(StoredRequest):
    """Pause a running sweep: segments under way end, no new one starts, idle workers go; `rlplan resume` goes on.

    Example: rlplan pause sweep-1
    """

    ANSWERED, EXPLAINS = "asking", False
    KIND: ClassVar[str] = "pause"

    sweep: options.SweepArgument = None


@dataclass(frozen=True)
class StopRequest(PauseRequest):
    """Stop a running sweep as its Ctrl-C does: updates under way end, all is saved; `rlplan resume` goes on.

    Example: rlplan stop sweep-1
    """

    KIND = "stop"


@dataclass(frozen=True)
class LaunchRequest(StoredRequest):
    """Run what a sweep recommends, or a plan's row, held against its promise; Ctrl-C saves, `rlplan resume` goes on.

    Exit code 5 when it ended and a warning stands. Example: rlplan launch sweep-1 --stop-when-won
    """

    EXPLAINS = False

    sweep: Annotated[
        str | None,
        typer.Argument(
            metavar="sweep|plan",
            help="A sweep; the newest without it. Or a plan, whose first row is run without pilots.",
            autocompletion=plans_and_sweeps,
        ),
    ] = None
    _: KW_ONLY
    allocation: Annotated[
        str | None, typer.Option(metavar="n=<int>,B=<int>", help="Another allocation than the recommended one.")
    ] = None
    validations: Annotated[int, options.whole("--validations", "Times that it is scored, each with a checkpoint.")] = 40
    stop_when_won: Annotated[
        bool, typer.Option("--stop-when-won", help="End it where nothing is left to win, and keep the rest.")
    ] = False
    switch: Annotated[
        bool, typer.Option("--switch", help="End the final run that there is, and run what promises more now.")
    ] = False
    from_best: Annotated[
        bool, typer.Option("--from-best", help="End the final run that there is, and go on from its best checkpoint.")
    ] = False
    learning_rate: Annotated[
        float | None, options.plain("--learning-rate", "With --from-best: the rate from there on.")
    ] = None
    ray_address: options.RayAddressOption = None
    rehearse: options.RehearseOption = False
    print_for: options.PrintForOption = None
    row: Annotated[
        int | None, options.whole("--row", "Of a plan, or with --print: as `rlplan rank` numbers it; 1.")
    ] = None
    trainer: options.TrainerOption = None
    problems: options.ProblemsOption = None
    model: options.ModelOption = None
    reward: options.RewardOption = None
    validation: options.ValidationOption = None
    approximate: options.ApproximateOption = False
    slurm: options.SlurmOption = False
    sbatch: options.SbatchOption = None
    dry_run: options.DryRunOption = False
    simulation: dict[str, Any] | None = None

    @property
    def training(self) -> SweepRequest | None:
        """How a plan's row is trained; None where nothing is said of it, for a sweep has its own settings."""
        given = {name: value for name in OF_TRAINING if (value := getattr(self, name))}
        return SweepRequest(db=self.db, ray_address=self.ray_address, **given) if given else None


@dataclass(frozen=True)
class TrainRequest(StoredRequest):
    """Train a model with GRPO, as a sweep of one trial; Ctrl-C saves the state, `rlplan resume` goes on.

    Example: rlplan train --task sum-easy --recipe grpo -n 16 -B 32 --steps 100
    """

    EXPLAINS = False

    _: KW_ONLY
    task: Annotated[
        str | None,
        typer.Option(
            metavar="<name>|<file>", help="An embedded task, or a JSONL file of problems.", autocompletion=tasks
        ),
    ] = None
    recipe: Annotated[
        str | None,
        typer.Option(help="A recipe, such as grpo, dapo or scalerl, or a .toml file.", autocompletion=recipes),
    ] = None
    rollouts_per_prompt: Annotated[
        int, options.whole("--rollouts-per-prompt", "Responses to each prompt.", short="-n")
    ] = 16
    prompts_per_batch: Annotated[int, options.whole("--prompts-per-batch", "Prompts of an update.", short="-B")] = 32
    growth: Annotated[
        str | None, typer.Option(metavar="<factor>x", help="Let the batch grow to B by a factor, such as 4x.")
    ] = None
    steps: Annotated[int, options.whole("--steps", "Update steps.")] = 100
    learning_rate: Annotated[
        float | None, options.plain("--learning-rate", "Otherwise the configuration's, scaled with √(n·B).")
    ] = None
    warmup: Annotated[int | None, options.whole("--warmup", "Update steps of warm-up; else the recipe's.")] = None
    temperature: Annotated[float | None, options.plain("--temperature", "Of the sampling; 1.")] = None
    seed: options.SeedOption = 0
    model: options.ModelOption = None
    reward: options.RewardOption = None
    response_tokens: Annotated[int | None, options.whole("--response-tokens", "Most tokens of a response.")] = None
    validation: options.ValidationOption = None
    problems: Annotated[int | None, options.whole("--problems", "Validation problems.")] = None
    samples: Annotated[int | None, options.whole("--samples", "Answers to each; the score is their mean.")] = None
    validate_every: Annotated[
        int | None,
        options.whole("--validate-every", "Rollouts between validations; about 20 validations.", metavar="<rollouts>"),
    ] = None
    engine: options.EngineOption = None
    device: options.DeviceOption = None
    threads: Annotated[int | None, options.whole("--threads", "CPU threads.")] = None
    weights: options.WeightsOption = None
    micro_batch_tokens: options.MicroBatchOption = None
    compile: Annotated[bool, typer.Option("--compile", help="Compile the decoder; worth it for long runs.")] = False
    checkpoint_every: Annotated[
        int | None,
        options.whole("--checkpoint-every", "Update steps between checkpoints; at each validation.", metavar="<steps>"),
    ] = None
    budget: Annotated[
        float | None, options.money("--budget", "Most GPU-hours that it may take; else its price's upper end.")
    ] = None
    folder: Annotated[
        Path | None, typer.Option(metavar="<folder>", help="Checkpoints and logs; else beside the database.")
    ] = None
    config: options.ConfigOption = None
