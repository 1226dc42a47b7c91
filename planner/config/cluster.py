"""How a sweep uses the Ray cluster that it is driven on: the `[cluster]` section of the file."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator

from planner.checking import Positive, Section
from planner.config.trainer import is_secret

ACCELERATOR = "ray.io/accelerator-type"  # the label that Ray gives nodes with GPUs
_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")
FEWEST_PORTS = 100  # for the trainers of one machine, which may have a Ray each


def _ports(given: str) -> str:
    first, last = map(int, found.groups()) if (found := _RANGE.fullmatch(given)) else (0, 0)
    if not (first >= 1024 and first + FEWEST_PORTS <= last + 1 and last < 65_536):
        raise ValueError(
            f"'{given[:40]}' is no range of {FEWEST_PORTS} ports or more from 1024 on: write it like 20000-21000"
        )
    return given


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
