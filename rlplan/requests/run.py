"""What is asked of the commands that run something: a sweep, or a final run."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

from rlplan.requests import options
from rlplan.requests.completion import plans_and_sweeps, policies, tasks, trials
from rlplan.requests.flags import StoredRequest, argument, budget, flag, money, toggle

OF_TRAINING = (
    *("trainer", "problems", "model", "reward", "validation", "approximate", "simulation"),
    *("seed", "engine", "device", "weights", "micro_batch_tokens", "folder"),
)


@dataclass(frozen=True)
class SweepRequest(StoredRequest):
    """Run the pilots of a plan and recommend an allocation; Ctrl-C saves the state, `rlplan resume` goes on.

    Example: rlplan sweep --task sum-easy --budget 0.03
    """

    EXPLAINS = False

    plan: str | None = options.plan()  # in Python a Plan too
    _: KW_ONLY
    task: str | None = flag("Propose for an embedded task on this machine's CPU first, then run that.", offer=tasks)
    budget: float | str | None = budget("Propose for these GPU-hours, or dollars, first, then run that.")
    recipes: str | Sequence[str] | None = options.recipes()
    models: str | Sequence[str] | None = options.models()
    champion: str | None = options.champion()
    explore: bool | None = options.explore()
    alone: bool | None = options.alone()
    advised: bool | None = options.advised()
    pilot_fraction: options.Share | None = options.pilot_fraction()
    pilot_gpus: int | None = options.pilot_gpus()
    gpus: int | None = options.gpus()
    config: Path | str | None = options.config()
    policy: str | None = flag(
        "What decides: champion, or rlplan without one; full, random, median, asha or hyperband.",
        "<name>",
        offer=policies,
    )
    search: str | None = flag(
        "Which of Optuna's samplers names cells without a pilot; none: the policy itself.", "tpe|gp|qmc|none"
    )
    seed: int = options.seed()
    workers: int | None = options.workers()
    ray_address: str | None = options.ray_address()
    folder: Path | None = options.new_folder()
    storage: str | None = flag("A copy of each trial's checkpoints and points, such as s3://bucket/path.", "<url>")
    retries: int = flag("Times in a row that a lost trial is tried again.", default=3)
    problems: Path | None = options.problems()
    model: str | None = options.model()
    reward: str | None = options.reward()
    validation: str | None = options.validation()
    engine: str | None = options.engine()
    device: str | None = options.device()
    weights: str | None = options.weights()
    micro_batch_tokens: int | None = options.micro_batch()
    trainer: str | None = options.trainer(short="--trainable")
    script: Path | None = flag(
        "What starts the trainer already: what the plan leaves open is kept.", "<script>", name="--from"
    )
    approximate: bool = options.approximate()
    rehearse: bool = options.rehearse()
    slurm: bool = options.slurm()
    sbatch: list[str] | None = options.sbatch()
    dry_run: bool = options.dry_run()
    further: dict[str, tuple[str, Any]] | None = None  # of the configuration, by key: who says it, and the value
    simulation: dict[str, Any] | None = None  # a world to train in instead of a trainer
    only: int | None = None  # the rank of the plan's one row that is trained, in full and without pilots


@dataclass(frozen=True)
class GoOnRequest(StoredRequest):
    """What can be said of a sweep that goes on, after an interruption or with what has failed."""

    EXPLAINS = False

    sweep: str | None = options.sweep()
    _: KW_ONLY
    accept_changes: bool = options.accept()
    folder: Path | None = options.own_folder()
    ray_address: str | None = options.ray_address()
    workers: int | None = options.workers()
    slurm: bool = options.slurm()
    sbatch: list[str] | None = options.sbatch()
    dry_run: bool = options.job_only()


@dataclass(frozen=True)
class ResumeRequest(GoOnRequest):
    """Go on with a sweep after any interruption or pause: the plan minus what is finished. Failed trials stay failed.

    Example: rlplan resume sweep-1
    """

    _: KW_ONLY
    add: float | None = money("GPU-hours more for it and its plan; it may have ended.")
    wait: float = flag("Seconds to wait for another driver to let go of it.", default=0.0)


@dataclass(frozen=True)
class RetryRequest(GoOnRequest):
    """Run the failed trials of a sweep again, and go on with the rest of it.

    Example: rlplan retry sweep-1 --trial n512-B32-s0
    """

    ANSWERED = "resume"

    _: KW_ONLY
    trial: list[str] | None = flag("A failed trial; may be repeated. All without it.", "<name>", offer=trials)


@dataclass(frozen=True)
class PauseRequest(StoredRequest):
    """Pause a running sweep: segments under way end, no new one starts, idle workers go; `rlplan resume` goes on.

    Example: rlplan pause sweep-1
    """

    ANSWERED, EXPLAINS = "resume", False
    KIND: ClassVar[str] = "pause"

    sweep: str | None = options.sweep()


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

    sweep: str | None = argument(
        "A sweep; the newest without it. Or a plan, whose first row is run without pilots.",
        "sweep|plan",
        offer=plans_and_sweeps,
    )
    _: KW_ONLY
    allocation: str | None = flag("Another allocation than the recommended one.", "n=<int>,B=<int>")
    validations: int = flag("Times that it is scored, each with a checkpoint.", default=40, least=1)
    stop_when_won: bool = toggle("End it where nothing is left to win, and keep the rest.")
    switch: bool = toggle("End the final run that there is, and run what promises more now.")
    from_best: bool = toggle("End the final run that there is, and go on from its best checkpoint.")
    learning_rate: float | None = flag("With --from-best: the rate from there on.", above=0)
    ray_address: str | None = options.ray_address()
    rehearse: bool = options.rehearse()
    print_for: str | None = flag(
        "Run nothing: print a row of a plan or sweep in the keys of verl, trl, ….", "<trainer>", name="--print"
    )
    row: int | None = flag("Of a plan, or with --print: as `rlplan rank` numbers it; 1.")
    trainer: str | None = options.trainer()
    problems: Path | None = options.problems()
    model: str | None = options.model()
    reward: str | None = options.reward()
    validation: str | None = options.validation()
    seed: int = options.seed()
    engine: str | None = options.engine()
    device: str | None = options.device()
    weights: str | None = options.weights()
    micro_batch_tokens: int | None = options.micro_batch()
    folder: Path | None = options.new_folder()
    approximate: bool = options.approximate()
    slurm: bool = options.slurm()
    sbatch: list[str] | None = options.sbatch()
    dry_run: bool = options.dry_run()
    simulation: dict[str, Any] | None = None

    @property
    def training(self) -> SweepRequest | None:
        """How a plan's row is trained; None where nothing is said of it, for a sweep has its own settings."""
        given = {name: value for name in OF_TRAINING if (value := getattr(self, name))}
        return SweepRequest(db=self.db, ray_address=self.ray_address, **given) if given else None
