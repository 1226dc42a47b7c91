"""A recipe: everything about the training but the allocation, as checked data.

Each section is one subject and each value has a source, which the recipe's file states beside it. What of a recipe
changes the price of a step is derived here, so that price and training cannot disagree.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from budgets.workload import RecipeTraits
from planner.tables import Count, NotNegative, OrNone, Positive, Section

Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(gt=0, lt=1)]

# What closes the answers of embedded tasks, whose models know no words. An answer that is the sum alone has nothing to
# close: it is never interrupted.
EMBEDDED_PHRASES = {"sum-easy": "", "sum-hard": "", "sum-steps": ";="}


class Advantage(Section):
    """How a rollout's reward becomes its advantage; the baseline is always the mean of its group."""

    scale: Literal["group", "batch", "none"] = Field(
        "group", description="divide by the standard deviation of the group, of the batch's advantages, or not at all"
    )
    epsilon: OrNone[NotNegative] = Field(
        None, description="added to that standard deviation; none: as the trainer has it, 1e-9 to 1e-4"
    )


class Objective(Section):
    """The loss of a token, and how tokens are averaged."""

    ratio: Literal["token", "sequence"] = Field(
        "token", description="probability ratio of each token, or one for a response: the geometric mean (GSPO)"
    )
    against: Literal["trainer", "sampler"] = Field(
        "trainer",
        description="whose log-probabilities the ratio is against: the trainer's when the batch was new, or the "
        "sampler's",
    )
    clip: Literal["ppo", "cispo", "soft", "gamma", "none"] = Field(
        "ppo",
        description="ppo: the lesser of ratio and clipped ratio; cispo: a capped ratio without gradient weighs the "
        "log-probability; soft: SAPO's sigmoid gate; gamma: VESPO's weight of the whole response; none",
    )
    clip_low: OrNone[NotNegative] = Field(0.2, description="ratios are clipped at 1 − this; none: no lower clip")
    clip_high: OrNone[NotNegative] = Field(0.2, description="ratios are clipped at 1 + this; none: no upper clip")
    aggregation: Literal["sample", "prompt", "token", "constant", "sum"] = Field(
        "token",
        description="mean over tokens within each response, within each prompt's group, or over the whole batch; or "
        "the sum over a response's tokens, divided by the longest allowed length (constant) or not (sum)",
    )
    truncated_importance: OrNone[Positive] = Field(
        None, description="weigh each token by trainer ÷ sampler probability, capped here (TIS); none: do not"
    )
    truncated_importance_level: Literal["token", "sequence"] = Field(
        "token", description="whether that weight is each token's or the whole response's"
    )
    kl: NotNegative = Field(0.0, description="coefficient of the KL term (k3) to the base model")
    kl_weighted: bool = Field(
        False, description="multiply the KL term by the ratio, which makes its gradient unbiased (DeepSeek-V3.2)"
    )
    entropy: NotNegative = Field(0.0, description="coefficient of the entropy bonus, a mean over the batch's tokens")
    soft_positive: Positive = Field(1.0, description="temperature of the soft gate where the advantage is positive")
    soft_negative: Positive = Field(1.05, description="temperature of the soft gate where it is not")


class Rewards(Section):
    """What is done to rewards before they become advantages."""

    correct: float = Field(1.0, description="reward of a full score of 1")
    wrong: float = Field(0.0, description="reward of a score of 0; scores between are scaled linearly")
    overlong_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="last share of the longest length in which a penalty grows linearly to −1 (DAPO); 0: none"
    )
    mask_truncated: bool = Field(False, description="leave truncated responses out of the loss")


class Interruptions(Section):
    """A closing phrase that is forced on long responses, so that they end in an answer instead of being cut."""

    earliest: OrNone[Share] = Field(
        None,
        description="share of the longest length from which on a response that goes on is interrupted; none: never",
    )
    latest: OrNone[Share] = Field(
        None,
        description="the place is drawn for each response between the earliest share and this; none: at the earliest",
    )
    phrase: str = Field("", description="what is forced there, outside of the loss; the answer is generated behind it")
    closed_by: str = Field("", description="a response that has said this already is let be; empty: none is")

    def require_complete(self) -> None:
        """Raise ValueError where something is missing for interruptions to end in an answer."""
        if self.earliest is None:
            return
        if not self.phrase:
            raise ValueError(
                f"interruptions.earliest = {self.earliest:g} without interruptions.phrase: give the text that closes a "
                "response there, or set earliest = 'none'"
            )
        if self.latest is not None and self.latest < self.earliest:
            raise ValueError(
                f"interruptions.earliest = {self.earliest:g} and latest = {self.latest:g}: the place is drawn between "
                f"them; give a latest of at least {self.earliest:g}, or 'none' for that place alone"
            )
        if self.closed_by not in self.phrase:
            raise ValueError(
                f"interruptions.closed_by = '{self.closed_by}' is no part of the phrase '{self.phrase}', so that an "
                "interrupted response would not be closed: put it into the phrase, or leave closed_by empty"
            )


class Filters(Section):
    """Which prompts are sampled and which groups are trained on."""

    zero_variance: Literal["keep", "drop", "refill"] = Field(
        "keep", description="groups whose rewards are all alike: keep, leave out, or sample others in their place"
    )
    most_refills: Count = Field(10, description="rounds of refilling before a step goes on with what it has")
    retire_at: OrNone[Rate] = Field(
        None, description="prompts whose historical pass rate reaches this are not sampled again; none: never"
    )
    curriculum: Literal["none", "easy-to-hard"] = Field(
        "none", description="order of the prompts in each pass: shuffled, or by base pass rate"
    )


class Schedule(Section):
    """When batches are generated relative to updates."""

    staleness_bound: Annotated[int, Field(ge=0)] = Field(
        0, description="updates by which the weights that wrote a token may be behind; 0: generate, then train"
    )
    updates_per_batch: Count = Field(1, description="updates on each generated batch (PPO-off-policy-k)")


class Optimizer(Section):
    """AdamW and the learning rate's shape; its height belongs to the plan."""

    learning_rate_schedule: str = Field("constant", description="after the warm-up; only constant can be swept")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(0, description="updates over which the rate rises linearly")
    beta1: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="decay of AdamW's first moment")
    beta2: Annotated[float, Field(ge=0, lt=1)] = Field(0.999, description="decay of AdamW's second moment")
    epsilon: Positive = Field(1e-8, description="AdamW's epsilon")
    weight_decay: NotNegative = Field(0.0, description="AdamW's decoupled weight decay")
    clip_norm: OrNone[Positive] = Field(1.0, description="largest norm of the gradient; none: no clipping")


class Precision(Section):
    """Number formats that change the result."""

    fp32_head: bool = Field(False, description="logits in FP32 in sampler and trainer, also under bf16 weights")


class Recipe(Section):
    """The whole recipe, resolved: nothing is inherited any more.

    A number that may be absent is written "none" in a file, which is how a file undoes what it inherits.
    """

    name: str = Field(description="what results are stored by; without it, the name of the file")
    summary: str = Field("", description="one sentence: what it is and where it is from")
    advantage: Advantage = Field(default_factory=Advantage)
    objective: Objective = Field(default_factory=Objective)
    rewards: Rewards = Field(default_factory=Rewards)
    interruptions: Interruptions = Field(default_factory=Interruptions)
    filters: Filters = Field(default_factory=Filters)
    schedule: Schedule = Field(default_factory=Schedule)
    optimizer: Optimizer = Field(default_factory=Optimizer)
    precision: Precision = Field(default_factory=Precision)
    sources: dict[str, str] = Field(default_factory=dict, description="dotted key → where its value is from")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.interruptions.require_complete()
        if self.schedule.staleness_bound > 0 and self.objective.against != "sampler":
            raise ValueError(
                f"schedule.staleness_bound = {self.schedule.staleness_bound} with objective.against = "
                f"'{self.objective.against}': a trainer that runs beside its generators no longer has the weights that "
                "wrote a batch. Set objective.against = 'sampler', or staleness_bound = 0"
            )
        if self.schedule.staleness_bound > 0 and self.schedule.updates_per_batch > 1:
            raise ValueError(
                f"schedule.staleness_bound = {self.schedule.staleness_bound} with updates_per_batch = "
                f"{self.schedule.updates_per_batch}: both make batches stale; keep one of them at its default"
            )
        return self

    def closing(self, task: str | None = None) -> tuple[str, str]:
        """Return the phrase that interrupts responses to a task, and what a closed one has said; empty: never.

        An embedded task has a phrase of its own, or none.
        """
        if self.interruptions.earliest is None:
            return "", ""
        if task in EMBEDDED_PHRASES:
            return EMBEDDED_PHRASES[task], EMBEDDED_PHRASES[task]
        return self.interruptions.phrase, self.interruptions.closed_by

    def traits(self, task: str | None = None) -> RecipeTraits:
        """Return what of the recipe changes the cost of a step, on an embedded task or on any other."""
        earliest = self.interruptions.earliest if self.closing(task)[0] else None
        return RecipeTraits(
            name=self.name,
            reference_pass=self.objective.kl > 0,
            staleness_bound=self.schedule.staleness_bound,
            updates_per_batch=self.schedule.updates_per_batch,
            refills_groups=self.filters.zero_variance == "refill",
            drops_groups=self.filters.zero_variance == "drop",
            learning_rate_schedule=self.optimizer.learning_rate_schedule,
            interrupted_from=earliest,
            interrupted_until=earliest and (self.interruptions.latest or earliest),
        )
