"""What of a recipe a trainer does exactly, what it does nearly, and what not at all."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from budgets.errors import InputError
from planner.recipes import Recipe, load_recipe, recipe_names
from planner.recipes.schema import Objective
from runner.ports.trial import Machine
from runner.trainers.spec import Deviation

A_GPU = Machine(device="cuda", engine="vllm", weights="bfloat16")  # on which a trainer is asked unless one is named
UNCLIPPED = 1e9
_WHOLE = 1.0  # as a lower clip: ratios are not negative

Degree = Literal["exact", "approximate", "refused"]
# What a table may say in [otherwise], and what goes without saying: why it does otherwise with older weights, truncated
# responses, dropped groups and refilled ones (with what it does instead), whether the output head can be in FP32, and
# the ratio against the sampler, what it adds to a group's deviation where that is fixed, and how the rate rises: "late"
# by an update, or "by batch", a step for each.
OTHERWISE: Mapping[str, Any] = {
    **dict.fromkeys(("stale", "truncated", "dropping", "refilling", "epsilon")),
    "head": True,
    "sampler": True,
    "rising": "exact",
}
SHARED: Mapping[str, Deviation] = {  # what several do otherwise, by what [otherwise] says; none retires a prompt
    "schedule.staleness_bound": Deviation(when="{stale}", why="{stale}", instead=0),
    "rewards.mask_truncated": Deviation(when="{truncated}", why="{truncated}", instead=False),
    "filters.zero_variance": Deviation(
        when="{dropping and filters.zero_variance == 'drop'}", why="{dropping}", instead="keep"
    ),
    "filters.most_refills": Deviation(
        when="{refilling and filters.zero_variance == 'refill'}",
        why="{refilling[0]}",
        instead="{refilling and refilling[1]}",
        ours=False,
    ),
    "filters.retire_at": Deviation(why="but it asks every prompt again"),
    "precision.fp32_head": Deviation(
        when="{not head}", why="but its output head has the weights' format", instead=False
    ),
    "objective.against": Deviation(
        when="{not sampler}", why="but its ratio is against the trainer's own probabilities", instead="trainer"
    ),
    "advantage.epsilon": Deviation(
        when="{epsilon is not None and advantage.scale == 'group' and advantage.epsilon is not None}",
        why="but its is {short(epsilon)}",
        instead="{epsilon}",
    ),
    "optimizer.warmup_steps": Deviation(
        when="{optimizer.warmup_steps > 1 and rising in ['late', schedule.updates_per_batch > 1 and 'by batch']}",
        why=(
            "{'whose first update has a rate of 0' if rising == 'late' "
            "else 'but its rate is one for all updates of a batch'}"
        ),
        instead="{'one update behind' if rising == 'late' else 'a step for each batch'}",
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


def judged(recipe: Recipe, judge: Callable[[Recipe], Sequence[Difference]]) -> list[Difference]:
    """Return all that a trainer from outside does otherwise: what its driver says, and that none interrupts."""
    found = list(judge(recipe))
    if (earliest := recipe.interruptions.earliest) is not None:
        found.append(Difference("interruptions.earliest", earliest, "but it interrupts no response", None))
    return found


def degree(differences: Iterable[Difference]) -> Degree:
    """Return how well a recipe is done."""
    found = list(differences)
    if not found:
        return "exact"
    return "approximate" if all(each.near for each in found) else "refused"


def loss_differences(
    objective: Objective,
    clips: Collection[str],
    aggregations: Collection[str],
    fixed: str | None = None,
    *,
    by_response: Collection[str] = ("ppo", "none"),
    entropy_alike: bool = False,
) -> Iterator[Difference]:
    """Yield what of the loss a trainer has not, by the clips and averages that it has.

    `fixed` is the average that this loss alone has, `by_response` the clips that it has for ratios of responses, and
    `entropy_alike` whether it averages entropies as it does losses.
    """
    clip, aggregation = objective.clip, objective.aggregation
    if clip not in clips:
        yield Difference("objective.clip", clip, "which it has not", "ppo", near=False)
    elif objective.ratio == "sequence" and clip not in by_response:
        yield Difference("objective.ratio", "sequence", f"which it has not with clip '{clip}'", "token", near=False)
    if fixed is not None and aggregation != fixed:
        yield Difference("objective.aggregation", aggregation, f"but this loss of it has '{fixed}'", fixed)
    elif fixed is None and aggregation not in aggregations:
        yield Difference("objective.aggregation", aggregation, "which it has not", "token")
    done = fixed or (aggregation if aggregation in aggregations else "token")
    if entropy_alike and objective.entropy and done != "token":
        why = f"which it averages as it does losses, by '{done}'"
        yield Difference("objective.entropy", objective.entropy, why, "an average over responses", ours=False)


def clip_bounds(objective: Objective, lowest: float = _WHOLE, highest: float = UNCLIPPED) -> tuple[float, float]:
    """Return how far a ratio may fall and rise as numbers, also where the recipe does not clip it."""
    low, high = objective.clip_low, objective.clip_high
    clips = objective.clip != "none"
    return (low if clips and low is not None else lowest), (high if clips and high is not None else highest)


def done_as(
    trainer: str, recipe: Recipe, judge: Callable[[Recipe], Sequence[Difference]], *, approximate: bool
) -> Recipe:
    """Return the recipe as the trainer does it; InputError where it does it otherwise and that is not wanted.

    `judge` says what it does otherwise. Of an approximated recipe these keys have the values that it does.
    """
    differences = judged(recipe, judge)
    known = degree(differences)
    if known == "refused" or (known == "approximate" and not approximate):
        advice = "With --approximate it is run so, and marked. " if known == "approximate" else ""
        exact = [name for name in recipe_names() if not judged(load_recipe(name), judge)]
        raise InputError(
            f"{trainer} cannot train recipe '{recipe.name}' as it is: {'; '.join(map(str, differences))}. {advice}"
            f"Recipes that it trains exactly: {', '.join(exact) or 'none'}; --trainer builtin trains them all"
        )
    tables = recipe.model_dump()
    for each in differences:
        if each.ours:
            section, _, name = each.key.partition(".")
            tables[section][name] = each.instead
    return Recipe.model_validate(tables) if differences else recipe


def _toml(value: Any) -> str:
    """Return a value as a recipe's file has it."""
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else repr(value)
