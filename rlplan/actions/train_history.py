"""What a run has shown so far: its scored points, and what went wrong when for the first time."""

from dataclasses import dataclass, field

from runner.ports.backend import Point
from runner.training import health

REWARD_FAILURES = "reward-failures"

_MEANINGS = {
    health.NAN_LOSS: "loss or gradient is not finite, and the update was skipped",
    health.ENTROPY_COLLAPSE: "the policy hardly varies any more while problems are still failed; groups give no signal",
    health.TRUNCATION: f"more than {health.MOST_TRUNCATION:.0%} of the responses are cut: raise --response-tokens",
    health.REWARD_COLLAPSE: "the pass rate fell to a fraction of its best; lower the learning rate",
}


@dataclass(slots=True)
class Seen:
    """A health flag: the update that raised it first, and how many did."""

    first_step: int
    steps: int = 0


@dataclass(slots=True)
class History:
    """Grows by one point at a time."""

    scored: list[Point] = field(default_factory=list)
    flags: dict[str, Seen] = field(default_factory=dict)
    last: Point | None = None

    def add(self, point: Point) -> list[str]:
        """Take a point and return a line for everything that is wrong for the first time."""
        self.last = point
        if point.score is not None:
            self.scored.append(point)
        failures = point.metrics.get("reward_failures") or 0
        raised = [*point.flags, *([REWARD_FAILURES] if failures else [])]
        lines = []
        for name in raised:
            if name not in self.flags:
                self.flags[name] = Seen(point.optimizer_step)
                lines.append(f"step {point.optimizer_step}: {name}: {_meaning(name, failures)}")
            self.flags[name].steps += 1
        return lines


def _meaning(name: str, failures: float) -> str:
    if name == REWARD_FAILURES:
        count = f"{failures:,.0f} rewards" if failures != 1 else "1 reward"
        return f"{count} could not be had (raised, hung or no number) and count as failed answers"
    return _MEANINGS.get(name, "see docs/training.md")
