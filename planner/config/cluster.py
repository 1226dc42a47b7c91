"""Where a sweep runs and is shown: the sections `[cluster]`, `[slurm]` and `[tracking]` of the file."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from planner.config.trainer import is_secret
from planner.tables import Count, Positive, Section

ACCELERATOR = "ray.io/accelerator-type"  # the label that Ray gives nodes with GPUs
_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")
FEWEST_PORTS = 100  # for the trainers of one machine, which may have a Ray each


def _ports(ports: str) -> str:
    first, last = map(int, match.groups()) if (match := _RANGE.fullmatch(ports)) else (0, 0)
    if not (first >= 1024 and first + FEWEST_PORTS <= last + 1 and last < 65_536):
        raise ValueError(
            f"'{ports[:40]}' is no range of {FEWEST_PORTS} ports or more from 1024 on: write it like 20000-21000"
        )
    return ports


class ClusterSection(Section):
    """How patient a sweep is with Ray, and which machines of the cluster it uses."""

    start_seconds: Positive = Field(
        600.0,
        description="for Ray to start, and for a worker to take its segment: imports from cold storage take minutes",
    )
    accelerator: str | None = Field(
        None, examples=["H100"], description=f"nodes with these GPUs alone, by Ray's name ({ACCELERATOR})"
    )
    labels: dict[str, str] = Field(
        {}, description="nodes with these labels of Ray alone; values may be !x, in(x,y) and !in(x,y)"
    )
    cpus_per_trial: Positive | None = Field(
        None, examples=[16.0], description="CPUs of a trial's worker; without it, one, or on CPUs those of the plan"
    )
    memory_gb_per_trial: Positive | None = Field(
        None, examples=[200.0], description="memory of a trial's worker; without it, Ray counts none"
    )
    ports: Annotated[str, AfterValidator(_ports)] | None = Field(
        None, examples=["20000-21000"], description="where trainers listen; without it, wherever a port is free"
    )
    runtime_env: dict[str, Any] = Field({}, description="Ray's runtime_env of all that the sweep starts there")

    @field_validator("runtime_env")
    @classmethod
    def _no_secrets(cls, given: dict[str, Any]) -> dict[str, Any]:
        if keys := [name for name, value in given.get("env_vars", {}).items() if is_secret(name, value)]:
            raise ValueError(
                f"[cluster.runtime_env.env_vars] {', '.join(keys)}: whoever may look at the cluster sees it there: set "
                f'it where the trainer runs, and name it alone, as [trainer] secrets = ["{keys[0]}"]'
            )
        return given

    @property
    def selector(self) -> dict[str, str]:
        """The labels that a node must have, by Ray's rules."""
        return {**({ACCELERATOR: self.accelerator} if self.accelerator else {}), **self.labels}


# Of sbatch: minutes, minutes:seconds, hours:minutes:seconds, and days-hours with or without minutes and seconds.
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_SECONDS = {True: (3600, 60, 1), False: (60, 1, 0)}  # of the parts, with days before them or three in number, and else
# What the job rests on: another value of these, and it would neither stop in time nor go on.
OURS = ("--signal", "--open-mode", "--requeue", "--no-requeue", "--dependency", "--job-name", "--ntasks-per-node")
OURS_SHORT = {"-J": "--job-name", "-d": "--dependency"}
EARLIEST_SECONDS = 60  # before the moment that is asked for, in which Slurm may send a signal


def seconds_of(time: str) -> int:
    """Return a time limit as sbatch reads it, in seconds; ValueError for what it does not know."""
    match = _TIME.fullmatch(time.strip())
    if match is None:
        raise ValueError(f"time = '{time[:40]}' is no time of Slurm: write hours:minutes:seconds or days-hours")
    parts = [int(part) for part in match["parts"].split(":")]
    units = _SECONDS[match["days"] is not None or len(parts) == 3]
    return 86_400 * int(match["days"] or 0) + sum(n * unit for n, unit in zip(parts, units, strict=False))


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError(f"{text[:40]!r} is more than one line: give one line each")
    return text


def _options(options: list[str]) -> list[str]:
    """Refuse what is no option of sbatch, and what the job sets itself."""
    for text in options:
        name = re.split(r"[= ]", text.strip(), maxsplit=1)[0]
        name = name if name.startswith("--") else OURS_SHORT.get(name[:2], name)
        if name in OURS:
            raise ValueError(f"{name} is set by the job itself, which could not go on otherwise: leave '{text}' out")
        if not re.fullmatch(r"--?[A-Za-z][\w-]*", name):
            raise ValueError(f"'{text[:40]}' is no option of sbatch: write it as there, such as --qos=high")
    return options


Line = Annotated[str, AfterValidator(_one_line)]
Options = Annotated[list[Line], AfterValidator(_options)]
Word = Annotated[Line, Field(pattern=r"^\S+$")]


class SlurmSection(Section):
    """What `rlplan sweep --slurm` asks Slurm for; each job submits the next until the sweep has ended."""

    nodes: Count | None = Field(
        None, examples=[4], description="nodes; without it, as many as hold the GPUs that the sweep uses"
    )
    cpus_per_node: Count | None = Field(
        None, examples=[64], description="CPUs of a node; without it, the whole node and no other job on it"
    )
    memory: Word | None = Field(
        None, examples=["200G"], description="memory of a node; without it, all of it (--mem=0)"
    )
    time: Word | None = Field(
        None, examples=["24:00:00"], description="time limit of one job; without it, the partition's own"
    )
    partition: Word | None = Field(None, examples=["gpu"], description="where it is queued")
    account: Word | None = Field(None, examples=["my-project"], description="who pays")
    margin_seconds: Annotated[int, Field(ge=30, le=65_535)] = Field(
        300, description="before the time limit, in which updates under way end and are saved"
    )
    sbatch: Options = Field([], description="further options of sbatch, such as '--qos=high' (--sbatch)")
    setup: list[Line] = Field(
        [], description="lines of bash before everything else, such as 'module load cuda' or 'conda activate rl'"
    )

    @model_validator(mode="after")
    def _room_to_work(self) -> Self:
        if self.time is None:
            return self
        least = self.margin_seconds + EARLIEST_SECONDS
        if seconds_of(self.time) <= least:
            raise ValueError(
                f"time = '{self.time}' leaves nothing to work in: the job stops {self.margin_seconds} s before that "
                f"(margin_seconds), and Slurm may say so {EARLIEST_SECONDS} s early; give more than {least} s"
            )
        return self


# By name the package that each needs.
TRACKERS = {"mlflow": "mlflow", "wandb": "wandb", "comet": "comet_ml", "tensorboard": "tensorboardX", "aim": "aim"}


class TrackingSection(Section):
    """Which experiment tracker gets a copy of every trial, whoever trains it; its own variables say where it is."""

    to: Literal["mlflow", "wandb", "comet", "tensorboard", "aim"] | None = Field(
        None, examples=["mlflow"], description=f"one of {', '.join(TRACKERS)}; without it, none"
    )
    project: Annotated[str, Field(pattern=r"^[\w.-]+$")] = Field(
        "rlplan", description="the tracker's project, or MLflow's experiment; not of tensorboard and aim"
    )
