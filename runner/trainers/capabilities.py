"""What of a recipe a trainer does exactly, what it does nearly, and what not at all."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from budgets.errors import InputError
from planner.recipes import Recipe, load_recipe, recipe_names
from planner.recipes.schema import Objective
from runner.ports.trial import Machine

A_GPU = Machine(device="cuda", engine="vllm", weights="bfloat16")  # on which a trainer is asked unless one is named
UNCLIPPED = 1e9
_WHOLE = 1.0  # as a lower clip: ratios are not negative
Degree = Literal["exact", "approximate", "refused"]


@dataclass(frozen=True, slots=True)
class Loss:
    """What a trainer's loss has."""

    clips: tuple[str, ...]
    aggregations: tuple[str, ...]
    by_response: tuple[str, ...] = ("ppo", "none")  # clips that it has for ratios of responses
    entropy_alike: bool = False  # whether it averages entropies as it does losses


@dataclass(frozen=True, slots=True)
class Deviation:
    """What a trainer does otherwise with a key of a recipe that has another value, for `Difference`."""

    why: str
    instead: Any = None
    when: bool = True
    near: bool = True
    ours: bool = True


@dataclass(frozen=True, slots=True)
class CommonDeviations:
    """What several trainers do otherwise; none retires a prompt."""

    stale: str | None = None  # why it does not train on older weights
    truncated: str | None = None  # … mask truncated responses
    dropping: str | None = None  # … drop groups without a gradient
    refilling: tuple[str, str] | None = None  # … bound its refills, and what it does instead
    head: bool = True  # whether the output head can be in FP32
    sampler: bool = True  # whether the ratio can be against the sampler
    epsilon: float | None = None  # what it adds to a group's deviation, where that is fixed
    rising: Literal["exact", "late", "by batch"] = "exact"  # how the rate rises: late by an update, or once a batch

    def deviations(self, recipe: Recipe) -> Mapping[str, Deviation]:
        """Return each by the recipe's key."""
        filters, advantage, schedule = recipe.filters, recipe.advantage, recipe.schedule
        retries, rounds = self.refilling or ("", None)
        late = self.rising == "late" or (self.rising == "by batch" and schedule.updates_per_batch > 1)
        scaled = advantage.scale == "group" and advantage.epsilon is not None
        return {
            "schedule.staleness_bound": Deviation(self.stale or "", 0, self.stale is not None),
            "rewards.mask_truncated": Deviation(self.truncated or "", False, self.truncated is not None),
            "filters.zero_variance": Deviation(
                self.dropping or "", "keep", self.dropping is not None and filters.zero_variance == "drop"
            ),
            "filters.most_refills": Deviation(
                retries, rounds, self.refilling is not None and filters.zero_variance == "refill", ours=False
            ),
            "filters.retire_at": Deviation("but it asks every prompt again"),
            "precision.fp32_head": Deviation("but its output head has the weights' format", False, not self.head),
            "objective.against": Deviation(
                "but its ratio is against the trainer's own probabilities", "trainer", not self.sampler
            ),
            "advantage.epsilon": Deviation(
                f"but its is {self.epsilon or 0:g}", self.epsilon, self.epsilon is not None and scaled
            ),
            "optimizer.warmup_steps": Deviation(
                "whose first update has a rate of 0"
                if self.rising == "late"
                else "but its rate is one for all updates of a batch",
                "one update behind" if self.rising == "late" else "a step for each batch",
                recipe.optimizer.warmup_steps > 1 and late,
                ours=False,
            ),
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of a recipe that a trainer does otherwise than it says."""

    key: str  # dotted, such as objective.aggregation
    given: Any
    why: str  # a clause that follows the value: "which it has not", "but it keeps every group"
    instead: Any  # what it does; as a value of ours where it is one, else in words
    near: bool = True  # whether --approximate may run it so
    ours: bool = True  # whether `instead` is a value of ours

    def __str__(self) -> str:
        """Name both values, and the one to set."""
        advice = f"set {_toml(self.instead)}" if self.ours else str(self.instead)
        return f"{self.key} = {_toml(self.given)}, {self.why}: {advice}"

    @property
    def done(self) -> str:
        """What is done in its place, for a plan or a report."""
        return f"{self.key} = {_toml(self.given)} as {_toml(self.instead) if self.ours else self.instead}"


@runtime_checkable
class Judging(Protocol):
    """A driver that says of any recipe what its trainer would do otherwise."""

    def differences(self, recipe: Recipe, machine: Machine = A_GPU) -> Sequence[Difference]:
        """Return every key that it does otherwise on a machine; nothing where the recipe is done exactly."""


def all_differences(recipe: Recipe, judge: Callable[[Recipe], Sequence[Difference]]) -> list[Difference]:
    """Return all that a trainer from outside does otherwise: what its driver says, and that none interrupts."""
    differences = list(judge(recipe))
    if (earliest := recipe.interruptions.earliest) is not None:
        differences.append(Difference("interruptions.earliest", earliest, "but it interrupts no response", None))
    return differences


def degree(differences: Iterable[Difference]) -> Degree:
    """Return how well a recipe is done."""
    several = list(differences)
    if not several:
        return "exact"
    return "approximate" if all(difference.near for difference in several) else "refused"


def loss_differences(objective: Objective, loss: Loss, fixed: str | None = None) -> Iterator[Difference]:
    """Yield what of the loss a trainer has not; `fixed` is the average that it alone has."""
    clip, aggregation = objective.clip, objective.aggregation
    if clip not in loss.clips:
        yield Difference("objective.clip", clip, "which it has not", "ppo", near=False)
    elif objective.ratio == "sequence" and clip not in loss.by_response:
        yield Difference("objective.ratio", "sequence", f"which it has not with clip '{clip}'", "token", near=False)
    if fixed is not None and aggregation != fixed:
        yield Difference("objective.aggregation", aggregation, f"but this loss of it has '{fixed}'", fixed)
    elif fixed is None and aggregation not in loss.aggregations:
        yield Difference("objective.aggregation", aggregation, "which it has not", "token")
    done = fixed or (aggregation if aggregation in loss.aggregations else "token")
    if loss.entropy_alike and objective.entropy and done != "token":
        why = f"which it averages as it does losses, by '{done}'"
        yield Difference("objective.entropy", objective.entropy, why, "an average over responses", ours=False)


def clip_bounds(objective: Objective, lowest: float = _WHOLE, highest: float = UNCLIPPED) -> tuple[float, float]:
    """Return how far a ratio may fall and rise as numbers, also where the recipe does not clip it."""
    low, high = objective.clip_low, objective.clip_high
    clips = objective.clip != "none"
    return (low if clips and low is not None else lowest), (high if clips and high is not None else highest)


def as_trained(
    trainer: str, recipe: Recipe, judge: Callable[[Recipe], Sequence[Difference]], *, approximate: bool
) -> Recipe:
    """Return the recipe as the trainer does it; InputError where it does it otherwise and that is not wanted.

    `judge` says what it does otherwise. Of an approximated recipe these keys have the values that it does.
    """
    differences = all_differences(recipe, judge)
    ability = degree(differences)
    if ability == "refused" or (ability == "approximate" and not approximate):
        advice = "With --approximate it is run so, and marked. " if ability == "approximate" else ""
        exact = [name for name in recipe_names() if not all_differences(load_recipe(name), judge)]
        raise InputError(
            f"{trainer} cannot train recipe '{recipe.name}' as it is: {'; '.join(map(str, differences))}. {advice}"
            f"Recipes that it trains exactly: {', '.join(exact) or 'none'}; --trainer builtin trains them all"
        )
    tables = recipe.model_dump()
    for difference in differences:
        if difference.ours:
            section, _, name = difference.key.partition(".")
            tables[section][name] = difference.instead
    return Recipe.model_validate(tables) if differences else recipe


def _toml(value: Any) -> str:
    """Return a value as a recipe's file has it."""
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else repr(value)
