"""What a Slurm job of a sweep asks for: the `[slurm]` section of the file."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from planner.checking import Count, Section

# Of sbatch: minutes, minutes:seconds, hours:minutes:seconds, and days-hours with or without minutes and seconds.
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_SECONDS = {True: (3600, 60, 1), False: (60, 1, 0)}  # of the parts, with days before them or three in number, and else
# What the job rests on: another value of these, and it would neither stop in time nor go on.
OURS = ("--signal", "--open-mode", "--requeue", "--no-requeue", "--dependency", "--job-name", "--ntasks-per-node")
OURS_SHORT = {"-J": "--job-name", "-d": "--dependency"}
EARLIEST_SECONDS = 60  # before the moment that is asked for, in which Slurm may send a signal


def seconds_of(time: str) -> int:
    """Return a time limit as sbatch reads it, in seconds; ValueError for what it does not know."""
    found = _TIME.fullmatch(time.strip())
    if found is None:
        raise ValueError(f"time = '{time[:40]}' is no time of Slurm: write hours:minutes:seconds or days-hours")
    parts = [int(part) for part in found["parts"].split(":")]
    units = _SECONDS[found["days"] is not None or len(parts) == 3]
    return 86_400 * int(found["days"] or 0) + sum(n * unit for n, unit in zip(parts, units, strict=False))


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError(f"{text[:40]!r} is more than one line: give one line each")
    return text


def _options(given: list[str]) -> list[str]:
    """Refuse what is no option of sbatch, and what the job sets itself."""
    for text in given:
        name = re.split(r"[= ]", text.strip(), maxsplit=1)[0]
        name = name if name.startswith("--") else OURS_SHORT.get(name[:2], name)
        if name in OURS:
            raise ValueError(f"{name} is set by the job itself, which could not go on otherwise: leave '{text}' out")
        if not re.fullmatch(r"--?[A-Za-z][\w-]*", name):
            raise ValueError(f"'{text[:40]}' is no option of sbatch: write it as there, such as --qos=high")
    return given


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
