"""Which machines of a cluster the user gives a sweep, and how much of one a trial's worker gets."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from budgets.errors import InputError
from planner.config.cluster import ClusterSection
from runner.ports.executor import Work
from runner.sweep.on_ray.cluster import Node
from runner.trainers.in_own_ray import PORTS_VARIABLE

_ANY_OF = re.compile(r"in\((.*)\)")


@dataclass(frozen=True, slots=True)
class Placement:
    """What is asked of machines beyond what a plan says; by default nothing."""

    cpus: float | None = None  # of a trial's worker
    memory_gb: float = 0.0  # likewise; 0: not counted
    labels: Mapping[str, str] = field(default_factory=dict)  # by Ray's rules
    runtime_env: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, section: ClusterSection) -> "Placement":
        """Return what the file says; the range of ports reaches trainers as a variable."""
        given = dict(section.runtime_env)
        if section.ports is not None:
            given["env_vars"] = {**given.get("env_vars", {}), PORTS_VARIABLE: section.ports}
        return cls(section.cpus_per_trial, section.memory_gb_per_trial or 0.0, section.selector, given)

    def applied(self, work: Work) -> Work:
        """Return a segment with what its worker is to occupy."""
        return replace(work, cpus=work.cpus if self.cpus is None else self.cpus, memory_gb=self.memory_gb)

    def among(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return the machines that have all the labels."""
        wanted = self.labels.items()
        return tuple(node for node in nodes if all(_matches(node.labels.get(name), value) for name, value in wanted))

    def require_some(self, nodes: Sequence[Node], found: Sequence[Node]) -> None:
        """Refuse a cluster where no machine has the labels, naming those that there are."""
        if found or not nodes:
            return
        wanted = ", ".join(f"{name} = {value}" for name, value in self.labels.items())
        has = "; ".join(
            f"{name}: {', '.join(sorted({node.labels.get(name, 'none') for node in nodes}))}" for name in self.labels
        )
        raise InputError(f"[cluster]: no machine of the cluster has {wanted}. They have {has}")


ANYWHERE = Placement()


def _matches(value: str | None, wanted: str) -> bool:
    """Whether a label has a value as Ray's selectors have it: x, !x, in(x,y) or !in(x,y)."""
    negated, words = wanted.startswith("!"), wanted.removeprefix("!")
    found = _ANY_OF.fullmatch(words)
    named = [each.strip() for each in found[1].split(",")] if found else [words]
    return (value in named) != negated
