"""What is trained, on what, how often it is validated, and what of the recipe changes the cost."""

from dataclasses import dataclass, replace

from budgets.errors import InputError
from budgets.execution import USUAL, Execution
from budgets.lengths import ResponseLengths, interrupted
from budgets.models import ModelShape
from budgets.signal import PassRates


@dataclass(frozen=True, slots=True)
class Validation:
    """Fixed problems, `samples` answers to each, once before the first update and then every so many.

    With `every_rollouts` large batches are scored after fewer updates than small ones.
    """

    problems: int = 300
    samples: int = 4
    every_steps: int = 20
    every_rollouts: int | None = None

    def __post_init__(self) -> None:
        if min(self.problems, self.samples, self.every_steps, self.every_rollouts or 1) < 1:
            raise InputError(
                f"validation of {self.problems} problems × {self.samples} samples every {self.every_steps} steps: "
                "each must be at least 1"
            )

    @property
    def rollouts(self) -> int:
        """Answers generated for one validation."""
        return self.problems * self.samples

    def steps_between(self, rollouts_per_step: int, batch: int) -> int:
        """Return the updates from one validation to the next: whole batches, of so many updates each."""
        rolled = None if self.every_rollouts is None else round(self.every_rollouts / rollouts_per_step)
        return max(1, (self.every_steps if rolled is None else rolled) // batch) * batch


TOOL_SECONDS = 1.0  # of a turn where nobody says: an order of magnitude, between a search and a test of code


@dataclass(frozen=True, slots=True)
class Turns:
    """A rollout's turns in an environment, such as calls of tools, and what each takes and adds."""

    count: float = 1.0
    tool_seconds: float = 0.0  # that the environment takes for a turn, on average
    tool_tokens: float = 0.0  # that it answers with: they are read and trained on beside the response
    environments: int | None = None  # trajectories under way at once; None: as many as are generated
    prefix_cached: bool = True  # false: each turn reads all that came before it anew
    most: int = 1  # where `count` is expected of the most that there may be
    most_tokens: int | None = None  # that the model writes in a turn; None: the whole response alone is cut

    def __post_init__(self) -> None:
        if self.count < 1 or self.tool_seconds < 0 or self.tool_tokens < 0 or (self.environments or 1) < 1:
            raise InputError(
                f"{self.count:g} turns of {self.tool_seconds:g} s and {self.tool_tokens:g} tokens in "
                f"{self.environments or 1} environments: turns and environments are at least 1, the rest at least 0"
            )

    @property
    def waited(self) -> float:
        """Seconds that a trajectory waits for its environment, on average."""
        return self.count * self.tool_seconds

    @property
    def tokens(self) -> float:
        """Tokens of the environment in a whole trajectory."""
        return self.count * self.tool_tokens

    def read_again(self, prompt: float, response: float) -> float:
        """Return the tokens that a trajectory's turns read beyond its prompt: what tools answered, or all before it."""
        before = (self.count - 1) * (prompt + (response + self.tokens) / 2)
        return self.tokens + (0.0 if self.prefix_cached else before)


ONE_TURN = Turns()


@dataclass(frozen=True, slots=True)
class Workload:
    """Model, lengths, prompts and their difficulty."""

    model: ModelShape
    prompt_tokens: float
    responses: ResponseLengths
    prompt_set_size: int
    pass_rates: PassRates
    validation: Validation
    turns: Turns = ONE_TURN
    image_tokens: float = 0.0  # of a prompt's

    def __post_init__(self) -> None:
        if not self.prompt_tokens > 0:
            raise InputError(f"prompts of {self.prompt_tokens:g} tokens: it must be positive")
        if self.prompt_set_size < 1:
            raise InputError(f"a prompt set of {self.prompt_set_size}: it must hold at least 1 prompt")
        if self.longest_sequence > self.model.context:
            room = self.model.context - self.prompt_tokens
            most = f"a response may have at most {room:,.0f} tokens" if room >= 1 else "no response has room beside it"
            raise InputError(
                f"a prompt of {self.prompt_tokens:g} and a response of {self.responses.cap:,} tokens exceed the "
                f"context of {self.model.name}, {self.model.context:,}: {most}"
            )

    @property
    def longest_sequence(self) -> float:
        """Tokens of the longest prompt and response together."""
        return self.prompt_tokens + self.responses.cap

    def under(self, traits: "RecipeTraits") -> "Workload":
        """Return the workload with the lengths that responses have once the recipe's interruptions shorten them."""
        first, last = traits.interrupted_from, traits.interrupted_until
        if first is None or last is None:
            return self
        return replace(self, responses=interrupted(self.responses, first, last))

    def with_mean_response(self, mean: float) -> "Workload":
        """Return the same workload with another mean response length."""
        return replace(self, responses=self.responses.with_mean(mean))


@dataclass(frozen=True, slots=True)
class RecipeTraits:
    """What of a recipe changes the cost of a step."""

    name: str
    reference_pass: bool = False  # a KL term needs the reference model's log-probabilities: one more forward pass
    staleness_bound: int = 0  # 0: the same GPUs generate, then train; k: others train, and generators may be k behind
    updates_per_batch: int = 1  # above 1 the trainer computes the old policy's log-probabilities once more
    old_log_probs: bool = False  # the trainer always scores the rollouts with the policy that made them: one more pass
    refills_groups: bool = False  # groups without signal are generated anew until the batch is full
    drops_groups: bool = False  # groups without signal are generated but not trained on
    interrupted_from: float | None = None  # share of the longest length from which on responses are made to answer
    interrupted_until: float | None = None  # and up to which; None: never
    execution: Execution = USUAL  # how it is run
    learning_rate_schedule: str = "constant"  # any other depends on the run's length and cannot be swept

    def __post_init__(self) -> None:
        if self.learning_rate_schedule != "constant":
            raise InputError(
                f"recipe '{self.name}' has the learning-rate schedule '{self.learning_rate_schedule}', which depends "
                "on the run's length: then one run no longer yields every shorter one and no sweep over n and B is "
                "possible. Use a constant rate after a short warm-up"
            )
        if self.staleness_bound < 0 or self.updates_per_batch < 1:
            raise InputError(
                f"recipe '{self.name}': staleness bound {self.staleness_bound} must be at least 0 and updates per "
                f"batch {self.updates_per_batch} at least 1"
            )
        first, last = self.interrupted_from, self.interrupted_until
        if (first, last) != (None, None) and not 0 < (first or 0) <= (last or 0) < 1:
            raise InputError(
                f"recipe '{self.name}' interrupts responses from {first} to {last} of the longest length: both shares "
                "are needed, the first not above the last, between 0 and 1"
            )

    def prompts_of_update(self, prompts_per_batch: int) -> int:
        """Return the prompts of each of a batch's updates; InputError where they are not equally many."""
        updates = self.updates_per_batch
        if prompts_per_batch % updates == 0:
            return prompts_per_batch // updates
        least = prompts_per_batch // updates * updates
        either = f"{least} or {least + updates}" if least else f"{updates}"
        raise InputError(
            f"B = {prompts_per_batch} prompts per batch: recipe '{self.name}' makes {updates} updates of each batch, "
            f"of equally many prompts; give {either}"
        )

    @property
    def uninterrupted(self) -> "RecipeTraits":
        """The same for lengths that were measured, which interruptions have shortened already."""
        return replace(self, interrupted_from=None, interrupted_until=None)

    @property
    def asynchronous(self) -> bool:
        """Whether generators and trainers are different GPUs that work at the same time."""
        return self.staleness_bound > 0
