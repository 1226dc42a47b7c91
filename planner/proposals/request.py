"""What a proposal is asked for, and the priced cells that it weighs."""

from dataclasses import dataclass, field, replace
from typing import Any

from budgets.allocation import Allocation
from budgets.coefficients import Coefficients
from budgets.cost import Z90, StepCost
from budgets.hardware import Hardware
from budgets.memory import fewest_gpus
from budgets.workload import RecipeTraits, Workload
from planner.axes import MODEL, with_rate, without
from planner.metrics import Interval
from planner.prior.draws import Weights, interval
from planner.prior.laws import Circumstances, Run
from planner.prior.studies import Values
from planner.rules import EXPLORED_SHARE, USUAL, GridBounds, PilotRules
from planner.view import Axes, Configuration

TRIED_RATES = (3.0,)  # times the rule's, beside it: two of eleven published rates are four times as high, one twice
TRIED_RECIPES = ("gspo",)  # ScaleRL, figure 5a: it ends at .595 where ratios of tokens end at .52; most trainers do it


@dataclass(frozen=True, slots=True)
class LearningRateRule:
    """The learning rate at an anchor batch; other batches scale it by √(n·B)."""

    base: float = 1e-6
    base_rollouts: int = 1024


@dataclass(frozen=True, slots=True)
class Variant:
    """One value of every further axis, and what it changes: the grid of n and B is laid over each variant."""

    axes: Axes
    workload: Workload
    traits: RecipeTraits
    learning_rate_factor: float = 1.0
    coefficients: Coefficients = field(default_factory=Coefficients)
    of_first_row: bool = False  # whether it is the first row alone, at another learning rate or with another recipe


@dataclass(frozen=True, slots=True)
class ChampionChoice:
    """Which n and B are trained first, and who says so: script, flag, usual or advised.

    What is usual, by itself or on advice, is the cell of the grid that is nearest to it.
    """

    sizes: tuple[int, int]
    source: str
    rate_factor: float = 1.0  # on the rule's learning rate

    @property
    def given(self) -> bool:
        """Whether they are the user's own."""
        return self.source in ("script", "flag")


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a proposal depends on.

    Without variants there is one, of the request's own workload and traits; with several these are those of the first.
    """

    budget_gpu_hours: float
    workload: Workload
    hardware: Hardware
    traits: RecipeTraits
    difficulty: str
    learning_rate: LearningRateRule = field(default_factory=LearningRateRule)
    grid: GridBounds = field(default_factory=GridBounds)
    pilots: PilotRules = field(default_factory=PilotRules)
    coefficients: Coefficients = field(default_factory=Coefficients)
    variants: tuple[Variant, ...] = ()
    other_rates: tuple[float, ...] = ()  # times the rule's, at which the first row is tried too
    other_recipes: tuple[RecipeTraits, ...] = ()  # with which the first row is tried too
    usual: tuple[tuple[int, int], ...] = USUAL  # each n and B that the proposal is compared with
    learning_rate_range: tuple[float, float] | None = None  # least and largest factor, where a sweep searches for it
    whole_nodes: bool = False  # whether a final run takes whole nodes, since idle GPUs of one are paid too
    chooses_gpus: bool = False  # whether the final run gets as many GPUs as seem best; else the hardware's
    within_hours: float | None = None  # of wall time, by whose end pilots and final run are to be done
    champion: ChampionChoice | None = None  # None where the whole grid is explored

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        """The variants that the grid is laid over, at least one."""
        return self.variants or (Variant((), self.workload, self.traits, 1.0, self.coefficients),)

    @property
    def pilot_hardware(self) -> Hardware:
        """The machine as pilots share it; as final runs do where nothing was decided for them."""
        return replace(self.hardware, gpus_per_trial=self.pilots.gpus or self.hardware.gpus_per_trial)

    @property
    def fewest_gpus(self) -> int:
        """The fewest GPUs that a trial of every variant fits; all of them where none does."""
        counts = [fewest_gpus(variant.workload, variant.traits, self.hardware.gpu) for variant in self.all_variants]
        return max((gpus for gpus in counts if gpus is not None), default=self.hardware.gpus)

    @property
    def continues_pilot(self) -> bool:
        """Whether the final run goes on from its pilot: it has the same GPUs."""
        return self.pilot_hardware == self.hardware

    def with_pilots(self, **changes: Any) -> "Request":
        """Return the same request with other rules for its pilots."""
        return replace(self, pilots=self.pilots.model_copy(update=changes))

    @property
    def pilot_fraction(self) -> float:
        """The share of the budget that is for pilots, or for challengers."""
        return EXPLORED_SHARE if self.pilots.fraction is None else self.pilots.fraction

    @property
    def candidates(self) -> tuple[Configuration, ...]:
        """The champion with each base model that is compared, with the first of all else; nothing without one."""
        if self.champion is None:
            return ()
        rest = without(self.all_variants[0].axes, MODEL)
        factor = self.champion.rate_factor
        return tuple(
            Configuration(*self.champion.sizes, variant.axes if factor == 1 else with_rate(variant.axes, factor))
            for variant in self.all_variants
            if without(variant.axes, MODEL) == rest
        )

    def of(self, variant: Variant) -> "Request":
        """Return the same request for one variant alone."""
        return replace(
            self, workload=variant.workload, traits=variant.traits, coefficients=variant.coefficients, variants=()
        )


@dataclass(frozen=True, slots=True)
class CellCost:
    """What a step of (n, B) of a variant costs, whatever the budget."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    cost: StepCost  # on the final run's GPUs
    pilot_cost: StepCost  # on those of a pilot
    signal_fraction: float
    variant: Variant

    @property
    def key(self) -> tuple[int, int]:
        """Its place in the grid, (n, B)."""
        return self.rollouts_per_prompt, self.prompts_per_batch

    @property
    def run(self) -> Run:
        """What its expected score depends on."""
        return Run.of(self.key, self.signal_fraction, self.variant.traits, Circumstances.of(self.variant.workload))


@dataclass(frozen=True, slots=True)
class PricedCell(CellCost):
    """One (n, B) of the grid, of one variant, with the best run that a number of GPU-hours buys."""

    allocation: Allocation
    expected: float  # score
    affordable_steps: int  # that the GPU-hours buy; the run has fewer where more passes are expected to do harm
    scores: Values = field(repr=False, compare=False)  # in each draw of the prior
    weights: Weights = field(repr=False, compare=False)  # of the draws
    configuration: Configuration = field(init=False, repr=False, compare=False)  # what tells it from all others

    def __post_init__(self) -> None:
        object.__setattr__(self, "configuration", Configuration(*self.key, self.variant.axes))

    @property
    def base(self) -> float:
        """The score before the first update."""
        return self.variant.workload.pass_rates.mean

    @property
    def expected_score(self) -> Interval:
        """The expected score with its interval, which few cells are asked for: a plan ranks them dozens of times."""
        return Interval(self.expected, *interval(self.scores, self.weights))

    @property
    def gpu_hours(self) -> float:
        """What the run takes, its start-up included."""
        return self.cost.gpu_hours(self.allocation.update_steps)


@dataclass(frozen=True, slots=True)
class Gap:
    """By how much a cell is expected to end above another, with a 90 % interval, and the chance that it does."""

    median: float
    low: float
    high: float
    chance: float

    @property
    def error(self) -> float:
        """Half of the interval."""
        return self.high - self.median

    @property
    def clear(self) -> bool:
        """Whether it is ahead by more than a standard deviation."""
        return self.median > self.error / Z90


@dataclass(frozen=True, slots=True)
class GapToFirst:
    """By how much a cell is expected to be ahead of the first, with a 90 % interval, and what that makes of it."""

    median: float
    low: float
    high: float
    level: bool  # whether the prior can hardly tell it from the first
    usual: tuple[int, int] | None  # the usual choice whose row it is, or that it is the nearest to


@dataclass(frozen=True, slots=True)
class StudyWeight:
    """What one study adds to the ranking: its weight, its distance from the workload, and its own first choice."""

    study: str
    weight: float
    distance: float | None  # 1 is where a study counts half; None where it does not matter
    rollouts_per_prompt: int
    prompts_per_batch: int


@dataclass(frozen=True, slots=True)
class PilotGrant:
    """The pilot of one cell: its steps, their GPU-hours with start-up, the steps of a segment; zeros when left out."""

    steps: int
    gpu_hours: float
    segment_steps: int
    reason: str
