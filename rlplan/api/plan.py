"""A plan: what `rlplan propose` answers, as an object."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import Any

from planner.config import Assumption
from rlplan.api.columns import CANDIDATES
from rlplan.api.frames import Frame, Library, make_frame, spread_axes
from rlplan.api.html import page_part
from rlplan.wording.numbers import UNKNOWN, hours, interval, steps

SHOWN = 12


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with a 90 % interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """One allocation that could be run, priced and ranked."""

    rank: int
    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int  # of the final run
    pilot_steps: int  # 0 for none
    gpu_hours_per_step: float
    pilot_gpu_hours: float
    learning_rate: float
    epochs: float
    signal_fraction: float
    expected_score: Interval | None  # None where no published study lets one expect anything
    pilot_reason: str
    notes: tuple[str, ...]
    axes: tuple[tuple[str, str | float], ...]  # what else tells it from others, such as ("recipe", "scalerl")


@dataclass(frozen=True, eq=False)
class Plan:
    """A budget's allocations, priced and ranked, and its split into pilots and final run; stored under `name`."""

    database: str
    document: Mapping[str, Any] = field(repr=False)
    notices: tuple[str, ...] = ()  # what was done to the database meanwhile, such as an upgrade

    @property
    def name(self) -> str:
        """What it is stored under, such as 'plan-3'."""
        return str(self.document["plan"])

    @property
    def budget_gpu_hours(self) -> float:
        """GPU-hours for pilots and final run together."""
        return float(self.document["budget_gpu_hours"])

    @property
    def pilot_gpu_hours(self) -> float:
        """The part that buys evidence."""
        return float(self.document["pilot_gpu_hours"])

    @property
    def final_gpu_hours(self) -> float:
        """The part that is left for the final run."""
        return float(self.document["final_gpu_hours"])

    @property
    def recipe(self) -> str:
        """The recipe's name, or those of all that are compared."""
        return str(self.document["recipe"])

    @property
    def difficulty(self) -> str:
        """How hard the problems are for the base model."""
        return str(self.document["difficulty"])

    @property
    def workload(self) -> dict[str, Any]:
        """What is trained, on what."""
        return dict(self.document["workload"])

    @property
    def hardware(self) -> dict[str, Any]:
        """What it runs on."""
        return dict(self.document["hardware"])

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every allocation, the best first."""
        return tuple(_candidate(each) for each in self.document["candidates"])

    @property
    def best(self) -> Candidate:
        """The first candidate: what one would run without any pilot."""
        return self.candidates[0]

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was taken for granted, and where that comes from."""
        return tuple(Assumption(**each) for each in self.document["assumptions"])

    def frame(self, frame: Library | None = None) -> Frame:
        """Return a row for each candidate, as a frame."""
        rows = [_row(each) for each in self.candidates]
        columns, spread = spread_axes(CANDIDATES, rows, (each.axes for each in self.candidates))
        return make_frame(columns, spread, frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan propose --format json` prints.

        Of a plan that was read from a database it lacks what the database does not keep: how seconds and GPUs are
        shared out within a step, and what fewer GPUs a trial would bring.
        """
        return deepcopy(dict(self.document))

    def __repr__(self) -> str:
        best = self.best
        return (
            f"<Plan {self.name}: {hours(self.budget_gpu_hours)} GPU-hours, {len(self.candidates)} candidates, first "
            f"n={best.rollouts_per_prompt}, B={best.prompts_per_batch}, M={steps(best.update_steps)}>"
        )

    def _repr_html_(self) -> str:
        split = (
            f"{self.name}: {hours(self.budget_gpu_hours)} GPU-hours, of which {hours(self.pilot_gpu_hours)} for pilots "
            f"and {hours(self.final_gpu_hours)} for the final run"
        )
        headings = ("#", "n", "B", "M", "GPU-hours a step", "pilot steps", "expected score")
        rows = [
            (
                str(each.rank),
                str(each.rollouts_per_prompt),
                str(each.prompts_per_batch),
                steps(each.update_steps),
                f"{each.gpu_hours_per_step:.3g}",
                steps(each.pilot_steps),
                interval(*astuple(each.expected_score)) if each.expected_score else UNKNOWN,
            )
            for each in self.candidates[:SHOWN]
        ]
        return page_part(split, headings, rows, hidden=len(self.candidates) - len(rows))


def _candidate(data: Mapping[str, Any]) -> Candidate:
    own = {name: data[name] for name in Candidate.__dataclass_fields__ if name in data}
    score = data["expected_score"]
    return Candidate(
        **own
        | {
            "expected_score": None if score is None else Interval(**score),
            "notes": tuple(data["notes"]),
            "axes": tuple(data.get("axes", {}).items()),
        }
    )


def _row(candidate: Candidate) -> dict[str, Any]:
    score = candidate.expected_score
    row = {name: getattr(candidate, name) for name in Candidate.__dataclass_fields__}
    return row | {
        "expected_score": score.median if score else None,
        "score_low": score.low if score else None,
        "score_high": score.high if score else None,
        "notes": "; ".join(candidate.notes),
    }
